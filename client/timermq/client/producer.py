"""The producer: sends messages now, for a moment, after a delay or by level; takes them back."""

from __future__ import annotations

import datetime
import itertools
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType

import trio

from timermq.remoting import Coding, Command, RequestCode, ResponseCode
from timermq.remoting.send_batch import SendItem, SendItemResult, decode_results, encode_items

from .errors import BrokerRefusedError, ConnectionLostError, RequestTimeoutError
from .link import Links, OpenStream
from .message import OutgoingMessage, SendReceipt, Verdict
from .route import Routes, TopicQueue, name_servers
from .wall_clock import now_ms

SEND_ATTEMPTS_MAX = 3
"""Attempts while no connection can be made; once a request is out it is not sent again."""
RETRY_PAUSE = 0.1
"""Seconds between two attempts."""
BATCH_COUNT_MAX = 1024
"""Messages in one frame; longer lists go in several."""
BATCH_SIZE_MAX = 1 << 20
"""Bytes of bodies in one frame; a larger message goes alone."""
STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


class Producer:
    """Sends to a cluster; use it as an async context manager.

    Sends may run concurrently: they share one connection to each broker. A send that ends with
    ``ConnectionLostError`` or ``RequestTimeoutError`` may have been stored; it is never repeated
    here.

    Args:
        namesrv: ``host:port`` of the name server, several separated by ``;``.
        group: Producer group.
        request_timeout: Seconds for one request.
        open_stream: Opens a TCP stream.
        clock_ms: The wall clock.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        group: str = "timermq-producer",
        request_timeout: float = 5.0,
        open_stream: OpenStream = trio.open_tcp_stream,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._servers = name_servers(namesrv)
        self._group = group
        self._timeout = request_timeout
        self._open_stream = open_stream
        self._unique_keys = UniqueKeys(clock_ms)
        self._turn = itertools.count()
        self._stack = AsyncExitStack()
        self._links: Links | None = None
        self._routes: Routes | None = None

    async def __aenter__(self) -> Producer:
        """Nothing is sent before the first message."""
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(nursery.cancel_scope.cancel)
        self._links = Links(nursery, lambda _address, _command: None, self._open_stream)
        self._routes = Routes(self._links, self._servers, trio.current_time)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close the connections; the broker notices."""
        return await self._stack.__aexit__(kind, error, trace)

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
        level: int | None = None,
        keys: Sequence[str] = (),
        tag: str = "",
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> SendReceipt:
        """Send one message; at most one of ``at``, ``delay`` and ``level``.

        Raises:
            ValueError: The arguments do not go together.
            BrokerRefusedError: The broker did not store it; ``rule`` says why.
            NoRouteError: The topic is unknown and may not be created.
            ConnectionLostError: It may or may not be stored.
            RequestTimeoutError: It may or may not be stored.

        Cancellation: it may be stored.
        """
        message = OutgoingMessage(
            topic=topic,
            body=body,
            at=at,
            delay=delay,
            level=level,
            keys=keys,
            tag=tag,
            properties=properties or {},
            queue_id=queue_id,
        )
        return (await self.send_batch([message]))[0]

    async def send_batch(self, messages: Sequence[OutgoingMessage]) -> list[SendReceipt]:
        """Send many messages, of any topics and moments, in as few frames as may be.

        Returns:
            One receipt a message, in order.

        Raises:
            BrokerRefusedError: A message was refused; those before it in its frame, and the frames
                before, are stored.
            NoRouteError: As for ``send``; so are the other errors.
        """
        receipts: list[SendReceipt] = []
        for part in _frames(messages):
            receipts += await self._send_frame(part)
        return receipts

    async def cancel(self, topic: str, recall_handle: str) -> Verdict:
        """Take a message back that waits for its moment.

        Raises:
            BrokerRefusedError: The handle is none, or cancelling is switched off.
            ConnectionLostError: It may or may not be cancelled; asking again does no harm.
        """
        queue = (await self._routes_now().writable(topic))[0]
        command = Command(
            RequestCode.RECALL_MESSAGE,
            ext={"producerGroup": self._group, "topic": topic, "recallHandle": recall_handle},
        )
        answer = await self._call(queue.address, command)
        if answer.code == ResponseCode.SUCCESS:
            return Verdict.CANCELLED
        rule = BrokerRefusedError(answer.code, answer.remark or "")
        verdict = _VERDICTS.get(rule.rule)
        if verdict is None:
            raise rule
        return verdict

    async def _send_frame(self, messages: Sequence[OutgoingMessage]) -> list[SendReceipt]:
        unique_keys = [self._unique_keys.next() for _ in messages]
        queues = [await self._pick(message) for message in messages]
        results: dict[int, SendItemResult] = {}
        for address in dict.fromkeys(queue.address for queue in queues):
            indexes = [i for i, queue in enumerate(queues) if queue.address == address]
            items = [_item(messages[i], queues[i], unique_keys[i]) for i in indexes]
            command = Command(
                RequestCode.SEND_MESSAGES, body=encode_items(items), coding=Coding.CBOR
            )
            answer = await self._call(address, command)
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefusedError(answer.code, answer.remark or "")
            results.update(zip(indexes, decode_results(answer.body), strict=True))
        return [_receipt(results[i], unique_keys[i]) for i in range(len(messages))]

    async def _pick(self, message: OutgoingMessage) -> TopicQueue:
        queues = await self._routes_now().writable(message.topic)
        if message.queue_id is None:
            return queues[next(self._turn) % len(queues)]
        for queue in queues:
            if queue.queue_id == message.queue_id:
                return queue
        raise ValueError(f"topic {message.topic} has no queue {message.queue_id}")

    async def _call(self, address: str, command: Command) -> Command:
        """One request, tried again only while no connection can be made."""
        assert self._links is not None, "used outside its context"
        for attempt in itertools.count(1):
            try:
                return await self._links.call(address, command, self._timeout)
            except RequestTimeoutError:
                raise
            except ConnectionLostError as error:
                refused = "cannot connect" in str(error)
                if not refused or attempt >= SEND_ATTEMPTS_MAX:
                    raise
                await trio.sleep(RETRY_PAUSE)
        raise AssertionError("unreachable")

    def _routes_now(self) -> Routes:
        assert self._routes is not None, "used outside its context"
        return self._routes


_VERDICTS = {
    "RECALL_TOO_LATE": Verdict.TOO_LATE,
    "RECALL_NOT_FOUND": Verdict.NOT_FOUND,
}
"""Rules of the broker's refusals that are answers, not errors."""


class UniqueKeys:
    """Message ids of one producer: random for the process, then time and count.

    RocketMQ's form of 32 hexadecimal digits; where Java puts its address and class loader there is
    randomness, so two producers on one host never meet.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._prefix = secrets.token_bytes(4) + (os.getpid() & 0xFFFF).to_bytes(2, "big")
        self._clock_ms = clock_ms
        self._count = itertools.count()

    def next(self) -> str:
        """An id that no other message has."""
        moment = self._clock_ms().to_bytes(6, "big")
        count = (next(self._count) & 0xFFFFFFFF).to_bytes(4, "big")
        return (self._prefix + moment + count).hex().upper()


def _frames(messages: Sequence[OutgoingMessage]) -> list[list[OutgoingMessage]]:
    frames: list[list[OutgoingMessage]] = []
    size = BATCH_SIZE_MAX
    for message in messages:
        if size + len(message.body) > BATCH_SIZE_MAX or len(frames[-1]) >= BATCH_COUNT_MAX:
            frames.append([])
            size = 0
        frames[-1].append(message)
        size += len(message.body)
    return frames


def _item(message: OutgoingMessage, queue: TopicQueue, unique_key: str) -> SendItem:
    return SendItem(
        topic=message.topic,
        queue_id=queue.queue_id,
        flag=message.flag,
        properties=message.encode_properties(unique_key),
        body=message.body,
    )


def _receipt(result: SendItemResult, unique_key: str) -> SendReceipt:
    if result.code not in STORED:
        raise BrokerRefusedError(result.code, result.remark or "")
    return SendReceipt(
        message_id=unique_key,
        offset_message_id=result.msg_id,
        queue_id=result.queue_id,
        queue_offset=result.queue_offset,
        deliver_ms=result.deliver_ms,
        recall_handle=result.recall_handle,
    )
