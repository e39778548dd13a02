"""The producer: sends messages now, for a moment, after a delay or by level; cancels them."""

from __future__ import annotations

import datetime
import itertools
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType

import trio

from timermq.remoting import Command, ResponseCode
from timermq.remoting.send_batch import SendItemResult, decode_results

from .access import Credentials, over_tls
from .background import BackgroundTasks
from .errors import (
    NOT_DURABLE,
    BrokerRefusedError,
    ClientError,
    MalformedAnswerError,
    NoAnswerError,
    check_answer,
    may_have_been_done,
    reading_answer,
)
from .history import HistoryWriter
from .link import REQUEST_TIMEOUT, Links, OpenStream
from .message import OutgoingMessage, Verdict
from .moment import now_ms
from .pending import CancelReceipt, PendingMessage, best_of, recall_request, receipt_of
from .producer_history import Asked, ProducerHistory
from .recall import broker_of, verdict_of
from .route import Routes, TopicQueue, name_servers
from .send_frames import Addressed, SendFrame, address_message, cut_frames
from .send_receipt import SendReceipt
from .unique_key import UniqueKeys

ATTEMPTS_MAX = 3
"""Attempts while the request cannot leave; once it is out it is not sent again."""
STORED = (ResponseCode.SUCCESS, *NOT_DURABLE)
"""Codes of messages that are in the broker's log, and of answers that tell of such."""


class Producer:
    """Sends to a cluster; use it as an async context manager.

    Sends may run concurrently: they share one connection to each broker. A send is retried only
    while nothing of it has left; one that ends with a ``NoAnswerError`` whose ``may_have_arrived``
    is set may have been stored, and it is for the caller to send it a second time.

    Args:
        namesrv: ``host:port`` of the name server, several separated by ``;``.
        group: Producer group.
        request_timeout: Seconds for one request, connecting included.
        credentials: The account that signs its requests.
        tls: Connections speak TLS by it; `ssl.create_default_context` makes one.
        open_stream: Opens a TCP stream.
        clock_ms: The wall clock.
        history: Takes what is sent and answered; what it cannot write ends the send with
            ``OSError``.

    Raises:
        ValueError: ``namesrv`` is no list of addresses.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        group: str = "timermq-producer",
        request_timeout: float = REQUEST_TIMEOUT,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        open_stream: OpenStream = trio.open_tcp_stream,
        clock_ms: Callable[[], int] = now_ms,
        history: HistoryWriter | None = None,
    ) -> None:
        self._servers = name_servers(namesrv)
        self._group = group
        self._timeout = request_timeout
        self._open_stream = over_tls(open_stream, tls)
        self._credentials = credentials
        self._unique_keys = UniqueKeys(clock_ms)
        self._turn = itertools.count()
        self._background = BackgroundTasks()
        self._history = None if history is None else ProducerHistory(history)
        self._links: Links | None = None
        self._routes: Routes | None = None

    async def __aenter__(self) -> Producer:
        """Nothing is sent before the first message."""
        nursery = await self._background.__aenter__()
        self._links = Links(
            nursery,
            lambda _address, _command: None,
            self._open_stream,
            credentials=self._credentials,
        )
        self._routes = Routes(self._links, self._servers, trio.current_time)
        if self._history is not None:
            self._history.start(self._group)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close the connections; the broker notices. Requests under way fail."""
        if self._history is not None:
            self._history.end()
        return await self._background.__aexit__(kind, error, trace)

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
        level: int | None = None,
        key: str | None = None,
        keys: Sequence[str] = (),
        tag: str = "",
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> SendReceipt:
        """Send one message; at most one of ``at``, ``delay`` and ``level``.

        Args:
            topic: Where it is to appear; it may be made by this.
            body: At most what the broker allows, by default 4 MiB.
            at: The moment: an aware datetime or epoch milliseconds.
            delay: From the broker's receiving it.
            level: One of RocketMQ's delay levels, 1 and up.
            key: A text to look it up by; one of ``keys``.
            keys: More of them.
            tag: What consumers may filter by.
            properties: The message's own.
            queue_id: None: queues take turns.

        Raises:
            ValueError: The arguments do not go together; nothing is sent.
            BrokerRefusedError: The broker did not store it; ``rule`` says why.
            NoRouteError: The topic is unknown and may not be created.
            NoAnswerError: ``ConnectionLostError`` or ``RequestTimeoutError``: it is stored or not,
                see ``may_have_arrived``.
            MalformedAnswerError: It may be stored.

        Cancellation: it may be stored.
        """
        message = OutgoingMessage(
            topic=topic,
            body=body,
            at=at,
            delay=delay,
            level=level,
            keys=(*keys,) if key is None else (key, *keys),
            tag=tag,
            properties=properties or {},
            queue_id=queue_id,
        )
        return (await self.send_batch([message]))[0]

    async def send_batch(self, messages: Sequence[OutgoingMessage]) -> list[SendReceipt]:
        """Send many messages, of any topics and moments, in as few frames as may be.

        Each message is stored or refused on its own. After a frame without an answer no further one
        is sent.

        Returns:
            One receipt a message, in order.

        Raises:
            ValueError: As for ``send``; nothing is sent.
            NoRouteError: For one of the topics; nothing is sent.
            ClientError: One of those of ``send``: what happened to the first message that was not
                stored. Its ``outcomes`` say it for every message: the receipt, the error, or None
                for one that was not sent.

        Cancellation: frames that were answered are stored, the one under way may be, the others
            are not.
        """
        addressed = await self._address(messages)
        outcomes: list[SendReceipt | ClientError | None] = [None] * len(messages)
        for frame in cut_frames(addressed):
            with self._sending(frame, messages, outcomes):
                is_taken = await self._send_frame(frame, outcomes)
            if not is_taken:
                break
        receipts = [one for one in outcomes if isinstance(one, SendReceipt)]
        if len(receipts) == len(messages):
            return receipts
        error = next(one for one in outcomes if isinstance(one, ClientError))
        error.outcomes = outcomes
        raise error

    async def cancel(
        self,
        topic: str,
        recall_handle: str | None = None,
        *,
        message_id: str | None = None,
        key: str | None = None,
    ) -> Verdict:
        """Take a message back that waits for its moment.

        Args:
            topic: Its topic.
            recall_handle: From its receipt; brokers of RocketMQ understand it too.
            message_id: Its unique key.
            key: A key that no other pending message of the topic has.

        Raises:
            ValueError: Not exactly one of the three is given.
            BrokerRefusedError: The handle is none, several messages have the key, or cancelling is
                switched off.
            NoRouteError: The topic is unknown.
            NoAnswerError: It may or may not be cancelled; asking again does no harm.

        Cancellation: the message may be cancelled.
        """
        target = PendingMessage(topic, recall_handle, message_id, key)
        with self._asking(target) as asked:
            if recall_handle is None:
                return (await self._ask(target, target.command, asked)).verdict
            recall = partial(recall_request, self._group, topic, recall_handle)
            (address,) = await self._holders(target)
            asked.verdict = verdict_of(await self._call(address, recall))
            return asked.verdict

    async def reschedule(
        self,
        topic: str,
        recall_handle: str | None = None,
        *,
        message_id: str | None = None,
        key: str | None = None,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
    ) -> CancelReceipt:
        """Give a pending message another moment; it arrives then only.

        Args:
            topic: Its topic.
            recall_handle: As for ``cancel``, as are the next two.
            message_id: Its unique key.
            key: A key that no other pending message of the topic has.
            at: The new moment: an aware datetime or epoch milliseconds; one that is past means now.
            delay: From the broker's receiving the request.

        Returns:
            The verdict (``MOVED``, ``TOO_LATE``, ``NOT_FOUND``) and the new handle.

        Raises:
            ValueError: Not exactly one name, or not exactly one of ``at`` and ``delay``.
            ClientError: As for ``cancel``.

        Cancellation: the message may be moved.
        """
        if (at is None) == (delay is None):
            raise ValueError("expected one of at and delay")
        target = PendingMessage(topic, recall_handle, message_id, key)
        with self._asking(target, at, delay) as asked:
            return await self._ask(target, lambda: target.command(at=at, delay=delay), asked)

    async def _ask(
        self, target: PendingMessage, command: Callable[[], Command], asked: Asked
    ) -> CancelReceipt:
        """Ask the brokers that may have the message; an error counts only where none did it."""
        receipts: list[CancelReceipt] = []
        errors: list[ClientError] = []
        for holder in await self._holders(target):
            try:
                receipts.append(receipt_of(await self._call(holder, command)))
            except ClientError as error:
                errors.append(error)
        best = best_of(receipts) if receipts else None
        if best is None or (errors and best.verdict not in (Verdict.MOVED, Verdict.CANCELLED)):
            raise max(errors, key=may_have_been_done)
        asked.verdict, asked.message_id = best.verdict, best.message_id
        asked.deliver_ms = best.deliver_ms
        return best

    def _sending(
        self,
        frame: SendFrame,
        messages: Sequence[OutgoingMessage],
        outcomes: Sequence[SendReceipt | ClientError | None],
    ) -> AbstractContextManager[None]:
        """Writes the history of a frame, if there is one."""
        if self._history is None:
            return nullcontext()
        return self._history.sending(frame, messages, outcomes)

    def _asking(
        self,
        target: PendingMessage,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
    ) -> AbstractContextManager[Asked]:
        """Writes the history of a cancel or a move, if there is one."""
        if self._history is None:
            return nullcontext(Asked())
        return self._history.asking(target, at, delay)

    async def _holders(self, target: PendingMessage) -> list[str]:
        """Addresses of the brokers that may have a message; of exactly one by its handle."""
        queues = await self._routes_now().writable(target.topic)
        if target.recall_handle is None:
            return sorted({queue.address for queue in queues})
        broker_name = broker_of(target.recall_handle)
        return [
            next(
                (queue.address for queue in queues if queue.broker_name == broker_name),
                queues[0].address,  # which says what is wrong with the handle
            )
        ]

    async def _address(self, messages: Sequence[OutgoingMessage]) -> list[Addressed]:
        """Give each message its id and queue; a topic is looked up once."""
        topics: dict[str, list[TopicQueue]] = {}
        for message in messages:
            if message.topic not in topics:
                topics[message.topic] = await self._routes_now().writable(message.topic)
        return [
            address_message(
                index, message, self._pick(message, topics[message.topic]), self._unique_keys.next()
            )
            for index, message in enumerate(messages)
        ]

    def _pick(self, message: OutgoingMessage, queues: list[TopicQueue]) -> TopicQueue:
        if message.queue_id is None:
            return queues[next(self._turn) % len(queues)]
        for queue in queues:
            if queue.queue_id == message.queue_id:
                return queue
        raise ValueError(f"topic {message.topic} has no queue {message.queue_id}")

    async def _send_frame(
        self, frame: SendFrame, outcomes: list[SendReceipt | ClientError | None]
    ) -> bool:
        """Send one frame and write down what became of its messages; False when none were taken."""
        try:
            answer = await self._call(frame.address, frame.command)
            if answer.code not in STORED:
                check_answer(answer)
            with reading_answer("answer to a batch"):
                results = decode_results(answer.body)
            if len(results) != len(frame.messages):
                raise MalformedAnswerError(
                    f"answer to a batch: expected {len(frame.messages)} results, "
                    f"found {len(results)}"
                )
        except ClientError as error:
            for one in frame.messages:
                self._routes_now().doubt(one.item.topic)
                outcomes[one.index] = error
            return False
        for one, result in zip(frame.messages, results, strict=True):
            outcomes[one.index] = _outcome(one, result, result.code or answer.code)
        return True

    async def _call(self, address: str, command: Callable[[], Command]) -> Command:
        """One request, retried only while it cannot leave; the link waits in between."""
        assert self._links is not None, "used outside its context"
        for attempt in itertools.count(1):
            try:
                return await self._links.call(address, command(), self._timeout)
            except NoAnswerError as error:
                if error.may_have_arrived or attempt >= ATTEMPTS_MAX:
                    raise
        raise AssertionError("unreachable")

    def _routes_now(self) -> Routes:
        assert self._routes is not None, "used outside its context"
        return self._routes


def _outcome(
    sent: Addressed, result: SendItemResult, code: int
) -> SendReceipt | BrokerRefusedError:
    if code not in STORED:
        return BrokerRefusedError(code, result.remark or "")
    return SendReceipt(
        message_id=sent.unique_key,
        offset_message_id=result.msg_id,
        queue_id=result.queue_id,
        queue_offset=result.queue_offset,
        deliver_ms=result.deliver_ms,
        recall_handle=result.recall_handle,
        is_durable=code not in NOT_DURABLE,
    )
