"""One send request on its way: the messages it brings, and the answer made of their results.

Three kinds reach the store in the same way: a single message (10, 310), a batch for one queue as
RocketMQ has it (320, and C++'s code 10 with ``batch=1``), and our own batch of messages for any
topics (9001), whose items succeed or fail one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import msgspec

from timermq.pipeline.admission.admission import TimerPutResult
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.send_batch import SendItemResult, encode_results
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.send_v2 import SendAnswerTemplate, SendV2
from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_columns import Pieces
from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import MessageColumns
from timermq.timerstore.put_status import PutStatus

from ..options import BrokerOptions
from ..refusal import RefusedError
from ..topic_validator import is_retry_topic

RESPONSE_CODES = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
    PutStatus.UNKNOWN_ERROR: ResponseCode.SYSTEM_ERROR,
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: ResponseCode.SYSTEM_ERROR,
    PutStatus.PUT_TO_REMOTE_BROKER_FAIL: ResponseCode.SYSTEM_ERROR,
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: ResponseCode.SYSTEM_ERROR,
    # SYSTEM_ERROR in Java, where all other flow control is SYSTEM_BUSY: clients try another broker,
    # and see that it is load.
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: ResponseCode.SYSTEM_BUSY,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.WHEEL_TIMER_NOT_ENABLE: ResponseCode.SYSTEM_ERROR,
}
"""The response code of each put result, as by Java's ``SendMessageProcessor`` but for one."""


# A structure of msgspec's for the reason given at `Message`.
class Addressed(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A message ready for the store, with what its answer needs."""

    message: Message
    topic: str
    """Its topic and queue in the end."""
    queue_id: int
    unique_key: str


@attrs.frozen(kw_only=True, eq=False)
class AddressedRun:
    """A run ready for the store, with what its answers need."""

    run: SendRun
    columns: MessageColumns
    topic: str
    """The topic of its messages in the end; the queue of each stands in the columns."""
    unique_keys: Rows

    def each(self) -> list[Addressed]:
        """The messages one by one."""
        rows = zip(self.columns.messages(), Pieces.of_rows(self.unique_keys).each(), strict=True)
        return [
            Addressed(
                message=message,
                topic=self.topic,
                queue_id=message.queue_id,
                unique_key=key.decode(),
            )
            for message, key in rows
        ]


@attrs.frozen(kw_only=True)
class AnswerFacts:
    """The fields about the broker in every answer to a send."""

    options: BrokerOptions
    id_prefix: str
    """Broker's address as upper-case hex: the head of every offset message id."""
    template: SendAnswerTemplate
    """Writes the answers to stored sends."""

    @classmethod
    def of(cls, options: BrokerOptions, store_host: bytes) -> AnswerFacts:
        """The facts of a broker at ``store_host``, its address as records hold it."""
        template = SendAnswerTemplate(region=options.region_id, trace_on=_trace_on(options))
        return cls(options=options, id_prefix=store_host.hex().upper(), template=template)

    def message_id(self, result: TimerPutResult) -> str:
        """The offset message id of a stored message."""
        return f"{self.id_prefix}{result.result.phy_offset:016X}"

    def recall_handle(self, sent: Addressed, result: TimerPutResult) -> str | None:
        """The recall handle of the message; only messages delayed by time have one."""
        if result.out_ms is None or result.by_level or not self.has_handles(sent.topic):
            return None
        return encode_handle(
            sent.topic, self.options.broker_name, result.out_ms + 1, sent.unique_key
        )

    def has_handles(self, topic: str) -> bool:
        """Whether delayed messages of a topic have recall handles."""
        return not is_retry_topic(topic)

    def stored_frame(self, send: SendV2, sent: Addressed, result: TimerPutResult) -> bytes:
        """The frame that answers a stored send; it says what ``SingleSend.answer`` says."""
        return self.template.frame(
            send.opaque,
            message_id=self.message_id(result),
            queue_id=sent.queue_id,
            queue_offset=result.result.queue_offset,
            unique_key=sent.unique_key,
            recall_handle=self.recall_handle(sent, result),
        )

    def stored(
        self, command: Command, code: ResponseCode, first: Addressed, offset: int, ids: str
    ) -> Command:
        """The answer that all forms for one queue have in common."""
        return command.answer(
            code,
            ext={
                "msgId": ids,
                "queueId": str(first.queue_id),
                "queueOffset": str(offset),
                "transactionId": first.unique_key,
                "MSG_REGION": self.options.region_id,
                "TRACE_ON": _trace_on(self.options),
            },
        )


@attrs.define(kw_only=True, eq=False, on_setattr=attrs.setters.frozen)
class SingleSend:
    """A send of one message."""

    command: Command
    sent: Addressed
    waits: bool
    """Whether the producer wants to wait for the flush (property WAIT)."""
    is_half: bool = False
    """It begins a transaction."""

    @property
    def messages(self) -> Sequence[Message]:
        """The one message that is sent."""
        return (self.sent.message,)

    def answer(self, facts: AnswerFacts, results: Sequence[TimerPutResult]) -> Command:
        """Ids and position, or why not."""
        timer_result = results[0]
        result = timer_result.result
        if not result.status.is_stored:
            return self.command.answer(
                RESPONSE_CODES[result.status], remark=remark_of(timer_result)
            )
        answer = facts.stored(
            self.command,
            RESPONSE_CODES[result.status],
            self.sent,
            result.queue_offset,
            facts.message_id(timer_result),
        )
        handle = facts.recall_handle(self.sent, timer_result)
        if handle is not None:
            answer.ext["recallHandle"] = handle
        return answer


@attrs.frozen(kw_only=True)
class BatchSend:
    """Messages for one queue that belong together."""

    command: Command
    parts: Sequence[Addressed]
    waits: bool

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the batch, in order."""
        return [part.message for part in self.parts]

    def answer(self, facts: AnswerFacts, results: Sequence[TimerPutResult]) -> Command:
        """The ids of all parts, or why the first that failed did."""
        for index, one in enumerate(results):
            if not one.result.status.is_stored:
                stored = sum(other.result.status.is_stored for other in results)
                return self.command.answer(
                    RESPONSE_CODES[one.result.status],
                    remark=f"{remark_of(one)} (part {index} of {len(results)}, "
                    f"{stored} parts are stored)",
                )
        return facts.stored(
            self.command,
            RESPONSE_CODES[results[0].result.status],
            self.parts[0],
            results[0].result.queue_offset,
            ",".join(map(facts.message_id, results)),
        )


@attrs.frozen(kw_only=True)
class ItemsSend:
    """Messages for any topics, each with a result of its own."""

    command: Command
    items: Sequence[Addressed | RefusedError]
    waits: bool = True

    @property
    def messages(self) -> Sequence[Message]:
        """Those items that passed the checks."""
        return [item.message for item in self.items if isinstance(item, Addressed)]

    def answer(self, facts: AnswerFacts, results: Sequence[TimerPutResult]) -> Command:
        """Success, with a result for each item in the body."""
        stored = iter(results)
        rows = [
            _refused_row(item.code, item.remark)
            if isinstance(item, RefusedError)
            else _row(facts, item, next(stored))
            for item in self.items
        ]
        return self.command.answer(ResponseCode.SUCCESS, body=encode_results(rows))


SendRequest = SingleSend | BatchSend | ItemsSend
"""A request whose messages are about to be put; its ``answer`` is made of their results."""


def _trace_on(options: BrokerOptions) -> str:
    return "true" if options.trace_on else "false"


def _row(facts: AnswerFacts, sent: Addressed, timer_result: TimerPutResult) -> SendItemResult:
    result = timer_result.result
    if not result.status.is_stored:
        return _refused_row(RESPONSE_CODES[result.status], remark_of(timer_result))
    return SendItemResult(
        code=RESPONSE_CODES[result.status],
        remark=None,
        msg_id=facts.message_id(timer_result),
        queue_id=sent.queue_id,
        queue_offset=result.queue_offset,
        deliver_ms=timer_result.deliver_ms,
        recall_handle=facts.recall_handle(sent, timer_result),
    )


def _refused_row(code: ResponseCode, remark: str) -> SendItemResult:
    return SendItemResult(
        code=code,
        remark=remark,
        msg_id="",
        queue_id=-1,
        queue_offset=-1,
        deliver_ms=None,
        recall_handle=None,
    )


def remark_of(timer_result: TimerPutResult) -> str:
    """Why a put was refused, one line that begins with a name in capitals."""
    result = timer_result.result
    if timer_result.rule is not None and result.remark is not None:
        return result.remark
    return f"{result.status.name}: {result.remark or 'the store refused the message'}"
