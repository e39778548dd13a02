"""Reads send requests: header and body to checked messages.

A batch of thousands is read in steps, so that others go on in between (``round_robin``).

Source: Java ``SendMessageProcessor.sendMessage``, ``sendBatchMessage``.
"""

from __future__ import annotations

from collections.abc import Callable

from timermq.pipeline.admission.admission import Refusal, TimerAdmission
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.send_batch import SendItem, decode_items
from timermq.remoting.send_header import SendHeader
from timermq.timerstore.batch import BatchError, BatchPart, batch_parts
from timermq.timerstore.message import Message
from timermq.timerstore.properties import WAIT_NAME, find

from ..options import BrokerOptions, TransactionDelay
from ..refusal import RefusedError
from ..session import Session
from ..steps import Steps, at_once
from ..topic_validator import AUTO_CREATE_TOPIC_KEY_TOPIC, is_retry_topic
from ..transactions.half_message import GROUP, is_half, parked
from .batch_properties import BatchProperties
from .message_stamp import MessageStamp, delay_request
from .send_checks import SendChecks, SendTarget
from .send_request import RESPONSE_CODES, Addressed, BatchSend, ItemsSend, SendRequest, SingleSend

WAITS_NOT = WAIT_NAME + b"\x01false"
"""The property of a message whose sender does not wait for it to be durable."""
STEP_COUNT = 256
"""Messages of a batch that are read at once: it takes a millisecond or two."""


class SendReader:
    """Makes requests of commands.

    Args:
        options: Limits and names.
        message_size_max: Bytes of a body, single or batch.
        timer_options: Admission's settings: batches are looked through before any part is stored.
        checks: Topic, queue and group.
        stamp: The broker's own properties.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        options: BrokerOptions,
        *,
        message_size_max: int,
        timer_options: TimerOptions,
        checks: SendChecks,
        stamp: MessageStamp,
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._message_size_max = message_size_max
        self._checks = checks
        self._stamp = stamp
        self._now_ms = now_ms
        self._rehearsal = TimerAdmission(timer_options, _never_congested)

    def read(self, session: Session, command: Command) -> SendRequest:
        """Read and check one request.

        Raises:
            RefusedError: A check failed.
            RemoteProtocolError: A field is missing or malformed.
        """
        return at_once(self.steps(session, command))

    def steps(self, session: Session, command: Command) -> Steps[SendRequest]:
        """The same in steps of ``STEP_COUNT`` messages; nothing is stored by any of them."""
        self._checks.check_accepting()
        if command.code == RequestCode.SEND_MESSAGES:
            return (yield from self._read_items(session, command))
        if command.code == RequestCode.SEND_MESSAGE:
            header = SendHeader.from_v1(command)
        else:
            header = SendHeader.from_v2(command)
        target = self._checks.check(session, _target(header))
        # C++ says batch=1 in a send of one message; a Java broker stores its parts as one message.
        if command.code == RequestCode.SEND_BATCH_MESSAGE or header.batch:
            return (yield from self._read_batch(session, command, header, target))
        return self._read_single(session, command, header, target)

    def _read_single(
        self, session: Session, command: Command, header: SendHeader, target: SendTarget
    ) -> SingleSend:
        if not command.body:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL, "BODY_EMPTY", "the message has no body"
            )
        sent = self._address(
            session, target, header, command.body, target.properties, flag=header.flag
        )
        return SingleSend(
            command=command,
            waits=_waits(target.properties),
            sent=self._parked(sent) if target.is_half else sent,
            is_half=target.is_half,
        )

    def _parked(self, sent: Addressed) -> Addressed:
        """The half message in place of a message; what would be refused at the commit is refused.

        RocketMQ turns a half message that asks for a moment towards the wheel, and loses where it
        was to go.
        """
        message = sent.message
        if not find(message.properties, GROUP):
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "TRANSACTION_GROUP",
                "a transactional message needs the property PGROUP: no producer could be asked",
            )
        decision = self._rehearsal.admit(message, self._now_ms())
        if isinstance(decision, Refusal):
            raise RefusedError(
                RESPONSE_CODES[decision.status],
                decision.rule,
                decision.remark.removeprefix(f"{decision.rule}: "),
            )
        if (
            decision.deliver_ms is not None
            and self._options.transaction_delay is TransactionDelay.REFUSE
        ):
            asked = delay_request(message.properties).decode("utf-8", "replace")
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "TRANSACTION_DELAY",
                f"a transactional message asks for a moment: {ascii(asked)[:130]}; allowed with "
                "transaction_delay AT_COMMIT",
            )
        return Addressed(
            message=parked(message, sent.unique_key),
            topic=sent.topic,
            queue_id=sent.queue_id,
            unique_key=sent.unique_key,
        )

    def _read_batch(
        self, session: Session, command: Command, header: SendHeader, target: SendTarget
    ) -> Steps[BatchSend]:
        if is_retry_topic(header.topic):
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "BATCH_TO_RETRY_TOPIC",
                f"{header.topic} takes no batches",
            )
        if len(command.body) > self._message_size_max:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "BODY_SIZE",
                f"expected at most {self._message_size_max} bytes, found {len(command.body)}",
            )
        parts: list[BatchPart] = []
        try:
            for part in batch_parts(command.body, count_max=self._options.batch_count_max):
                parts.append(part)
                if len(parts) % STEP_COUNT == 0:
                    yield
        except BatchError as error:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "BATCH", str(error)) from error
        if target.is_half or any(is_half(part.properties) for part in parts):
            raise _half_in_batch()
        shared = BatchProperties.of(target.properties)
        self._check_copies(command, shared, len(parts))
        addressed: list[Addressed] = []
        for part in parts:
            properties = shared.added_to(part.properties)
            addressed.append(
                self._address(session, target, header, part.body, properties, flag=part.flag)
            )
            if len(addressed) % STEP_COUNT == 0:
                yield
        self._rehearse(addressed)
        return BatchSend(command=command, waits=_waits(target.properties), parts=addressed)

    def _check_copies(self, command: Command, shared: BatchProperties, count: int) -> None:
        """Refuse a batch that is larger than a message with its properties copied to each part."""
        found = len(command.body) + shared.size * count
        if found > self._message_size_max:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "BODY_SIZE",
                f"expected at most {self._message_size_max} bytes with {shared.size} of the "
                f"batch's properties in each of {count} parts, found {found}",
            )

    def _read_items(self, session: Session, command: Command) -> Steps[ItemsSend]:
        items: list[Addressed | RefusedError] = []
        for item in decode_items(command.body, count_max=self._options.batch_count_max):
            items.append(self._read_item(session, item))
            if len(items) % STEP_COUNT == 0:
                yield
        return ItemsSend(command=command, items=items)

    def _read_item(self, session: Session, item: SendItem) -> Addressed | RefusedError:
        try:
            _check_text(item.properties)
            target = self._checks.check(
                session,
                SendTarget(
                    topic=item.topic,
                    queue_id=item.queue_id,
                    properties=item.properties,
                    default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
                    default_topic_queue_nums=self._options.default_topic_queue_nums,
                ),
            )
            if target.is_half:
                return _half_in_batch()
        except RefusedError as refused:
            return refused
        return self._address(session, target, None, item.body, target.properties, flag=item.flag)

    def _address(
        self,
        session: Session,
        target: SendTarget,
        header: SendHeader | None,
        body: bytes,
        properties: bytes,
        *,
        flag: int,
    ) -> Addressed:
        """The message as the store is to get it; without a header it is born here and now."""
        stamped, unique_key = self._stamp.stamp(properties)
        message = Message(
            topic=target.topic,
            queue_id=target.queue_id,
            body=body,
            properties=stamped,
            flag=flag,
            sys_flag=target.sys_flag,
            born_ms=header.born_ms if header is not None else self._now_ms(),
            born_host=session.born_host,
            reconsume_times=target.reconsume_times,
        )
        return Addressed(
            message=message,
            topic=target.topic,
            queue_id=target.queue_id,
            unique_key=unique_key,
        )

    def _rehearse(self, parts: list[Addressed]) -> None:
        """Let admission look at all parts first: half a batch would be sent again as a whole."""
        messages = [part.message for part in parts]
        decisions = self._rehearsal.admit_all(messages, self._now_ms())
        for index, decision in enumerate(decisions):
            if isinstance(decision, Refusal):
                raise RefusedError(
                    RESPONSE_CODES[decision.status],
                    decision.rule,
                    f"{decision.remark.removeprefix(f'{decision.rule}: ')} "
                    f"(part {index} of {len(parts)})",
                )


def _target(header: SendHeader) -> SendTarget:
    return SendTarget(
        topic=header.topic,
        queue_id=header.queue_id,
        properties=header.properties,
        sys_flag=header.sys_flag,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        producer_group=header.producer_group,
        reconsume_times=header.reconsume_times,
        max_reconsume_times=header.max_reconsume_times,
    )


def _check_text(properties: bytes) -> None:
    """Bytes from outside, which the other forms bring as text already."""
    try:
        properties.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            "PROPERTY_TEXT",
            f"expected UTF-8, found another byte at {error.start}",
        ) from error


def _half_in_batch() -> RefusedError:
    return RefusedError(
        ResponseCode.MESSAGE_ILLEGAL,
        "TRANSACTION_BATCH",
        "a message of a batch has TRAN_MSG: transactional messages are sent one by one",
    )


def _waits(properties: bytes) -> bool:
    return WAITS_NOT not in properties or find(properties, WAIT_NAME) != b"false"


def _never_congested(slot_ms: int) -> bool:  # noqa: ARG001 - flow control counts only real puts
    return False
