"""The consumer: iterates over the messages of topics, shared among the members of a group.

A group's members divide the queues of each topic among themselves: everyone sorts the same two
lists and takes its share (AllocateMessageQueueAveragely). A membership change (pushed by the broker
as code 40) or 20 seconds make everyone look again. Each assigned queue has one long pull under way.
Offsets are committed every five seconds and at the end, as far as ``commit`` has been called:
delivery is at least once.

Source: Java ``DefaultMQPushConsumerImpl``, ``RebalanceImpl``.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Literal

import attrs
import structlog
import trio

from timermq.remoting import Command, RemoteProtocolError, RequestCode, ResponseCode
from timermq.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    decode_consumer_list,
)
from timermq.remoting.codes import FLAG_ONEWAY
from timermq.remoting.stored_message import decode_messages

from .errors import BrokerRefusedError, ClientError
from .link import Links, OpenStream
from .message import ReceivedMessage
from .route import Routes, TopicQueue, name_servers
from .wall_clock import now_ms

log = structlog.get_logger("timermq.client.consumer")

HEARTBEAT_SECONDS = 30.0
REBALANCE_SECONDS = 20.0
COMMIT_SECONDS = 5.0
ERROR_PAUSE = 1.0
"""Seconds before a queue whose pull failed is pulled again."""
SUSPEND_MS = 15_000
"""How long the broker holds a pull for which there is no message."""
PULL_COUNT = 256
"""Messages asked for by one pull."""
BUFFER_COUNT = 1024
"""Messages pulled ahead of the iteration, of all queues together."""

_COMMIT, _SUSPEND, _SUBSCRIPTION = 1, 2, 4


@attrs.define(eq=False)
class _Assigned:
    """A queue that is ours at the moment."""

    queue: TopicQueue
    scope: trio.CancelScope
    committed: int = -1
    """Next offset to consume as the broker knows it."""
    done: int = -1
    """Next offset to consume as ``commit`` says."""


class Consumer:
    """Receives messages of a group; use it as an async context manager and iterate over it.

    Args:
        namesrv: ``host:port`` of the name server, several separated by ``;``.
        group: Consumer group.
        topics: Topic to tag expression: ``*``, or tags separated by ``||``.
        start_from: Where a group begins that has committed nothing: at the first message there is,
        or
            behind the last.
        open_stream: Opens a TCP stream.
        clock_ms: The wall clock.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        group: str,
        topics: Mapping[str, str],
        start_from: Literal["first", "last"] = "last",
        open_stream: OpenStream = trio.open_tcp_stream,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._servers = name_servers(namesrv)
        self._group = group
        self._clock_ms = clock_ms
        self._topics = dict(topics)
        self._start_from = start_from
        self._open_stream = open_stream
        self._client_id = f"timermq@{os.getpid()}#{secrets.token_hex(4)}"
        self._sub_version = clock_ms()
        self._assigned: dict[TopicQueue, _Assigned] = {}
        self._look_again = trio.Event()
        self._stack = AsyncExitStack()
        self._send, self._receive = trio.open_memory_channel[ReceivedMessage](BUFFER_COUNT)
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> Consumer:
        """Register with the brokers and begin to pull, as soon as there are queues."""
        self._nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._links = Links(self._nursery, self._on_request, self._open_stream)
        self._routes = Routes(self._links, self._servers, trio.current_time)
        self._nursery.start_soon(self._run_every, HEARTBEAT_SECONDS, self._heartbeat)
        self._nursery.start_soon(self._run_every, REBALANCE_SECONDS, self._rebalance)
        self._nursery.start_soon(self._run_every, COMMIT_SECONDS, self._commit_all)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Commit, say goodbye, close; at most five seconds."""
        with trio.move_on_after(COMMIT_SECONDS, shield=True):
            await self._commit_all()
            for address in self._links.addresses():
                with suppress(ClientError):
                    await self._links.call(address, self._goodbye())
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        return await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Messages for ever, in order within each queue.

        Cancellation: a message that was not given out comes again.
        """
        return self._receive

    async def commit(self, message: ReceivedMessage) -> None:
        """Everything of the message's queue up to it is done; sent with the next commit."""
        await trio.lowlevel.checkpoint()
        for one in self._assigned.values():
            if (one.queue.topic, one.queue.queue_id) == (message.topic, message.queue_id):
                one.done = max(one.done, message.queue_offset + 1)

    async def _run_every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work`` now, every ``seconds``, and when the membership changed."""
        while True:
            again = self._look_again
            try:
                await work()
            except (ClientError, RemoteProtocolError) as error:
                log.warning("consumer", group=self._group, reason=str(error))
                await trio.sleep(ERROR_PAUSE)
                continue
            with trio.move_on_after(seconds):
                await again.wait()

    async def _heartbeat(self) -> None:
        addresses = {queue.address for queue in await self._queues()}
        for address in addresses | set(self._broker_addresses()):
            body = self._heartbeat_body()
            answer = await self._links.call(address, Command(RequestCode.HEART_BEAT, body=body))
            _check(answer)

    def _broker_addresses(self) -> list[str]:
        return [one.queue.address for one in self._assigned.values()]

    def _heartbeat_body(self) -> bytes:
        subscriptions = [
            SubscriptionData(topic=topic, sub_string=expression, sub_version=self._sub_version)
            for topic, expression in self._topics.items()
        ]
        start = "CONSUME_FROM_FIRST_OFFSET"
        if self._start_from == "last":
            start = "CONSUME_FROM_LAST_OFFSET"
        return HeartbeatData(
            client_id=self._client_id,
            consumers=[
                ConsumerData(
                    group_name=self._group,
                    consume_from_where=start,
                    subscriptions=subscriptions,
                )
            ],
        ).encode()

    async def _queues(self) -> list[TopicQueue]:
        return [queue for topic in self._topics for queue in await self._routes.readable(topic)]

    async def _rebalance(self) -> None:
        """Take our share of each topic's queues; pull new ones, leave those that are gone."""
        wanted: set[TopicQueue] = set()
        for topic in self._topics:
            queues = await self._routes.readable(topic)
            if not queues:
                self._routes.forget(topic)
                self._soon()
                continue
            wanted |= set(await self._share(queues))
        for queue in set(self._assigned) - wanted:
            self._assigned.pop(queue).scope.cancel()
        for queue in wanted - set(self._assigned):
            assigned = self._assigned[queue] = _Assigned(queue, trio.CancelScope())
            assert self._nursery is not None
            self._nursery.start_soon(self._pull_queue, assigned)

    async def _share(self, queues: list[TopicQueue]) -> list[TopicQueue]:
        address = queues[0].address
        # Registered before asking: the list must contain us.
        body = self._heartbeat_body()
        _check(await self._links.call(address, Command(RequestCode.HEART_BEAT, body=body)))
        command = Command(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext={"consumerGroup": self._group}
        )
        answer = await self._links.call(address, command)
        members = sorted(decode_consumer_list(_check(answer).body))
        return allocate(queues, members, self._client_id)

    def _soon(self) -> None:
        """Look for a topic again in a second: it is made by the first send to it."""
        assert self._nursery is not None
        self._nursery.start_soon(self._look_later)

    async def _look_later(self) -> None:
        await trio.sleep(ERROR_PAUSE)
        self._wake()

    async def _pull_queue(self, assigned: _Assigned) -> None:
        """One queue for as long as it is ours."""
        with assigned.scope:
            offset = -1
            while True:
                try:
                    if offset < 0:
                        offset = await self._first_offset(assigned.queue)
                        assigned.committed = assigned.done = offset
                    offset = await self._pull(assigned.queue, offset)
                except (ClientError, RemoteProtocolError) as error:
                    log.warning("pull failed", queue=str(assigned.queue), reason=str(error))
                    self._routes.forget(assigned.queue.topic)
                    await trio.sleep(ERROR_PAUSE)

    async def _pull(self, queue: TopicQueue, offset: int) -> int:
        """One pull; gives its messages out and returns the next offset."""
        command = Command(
            RequestCode.PULL_MESSAGE,
            ext={
                "consumerGroup": self._group,
                "topic": queue.topic,
                "queueId": str(queue.queue_id),
                "queueOffset": str(offset),
                "maxMsgNums": str(PULL_COUNT),
                "sysFlag": str(_SUSPEND | _SUBSCRIPTION),
                "commitOffset": "0",
                "suspendTimeoutMillis": str(SUSPEND_MS),
                "subscription": self._topics[queue.topic],
                "subVersion": str(self._sub_version),
                "expressionType": "TAG",
            },
        )
        answer = await self._links.call(queue.address, command, SUSPEND_MS / 1000 + 15)
        if answer.code not in _PULL_ANSWERS:
            raise BrokerRefusedError(answer.code, answer.remark or "")
        if answer.code == ResponseCode.SUCCESS:
            received_ms = self._clock_ms()
            for stored in decode_messages(answer.body):
                await self._send.send(ReceivedMessage.of(stored, received_ms))
        return int(answer.ext["nextBeginOffset"])

    async def _first_offset(self, queue: TopicQueue) -> int:
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
        }
        command = Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=ext)
        answer = await self._links.call(queue.address, command)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            code = RequestCode.GET_MIN_OFFSET
            if self._start_from == "last":
                code = RequestCode.GET_MAX_OFFSET
            answer = await self._links.call(queue.address, Command(code, ext=ext))
        return int(_check(answer).ext["offset"])

    async def _commit_all(self) -> None:
        for one in list(self._assigned.values()):
            if one.done > one.committed:
                done = one.done
                command = Command(
                    RequestCode.UPDATE_CONSUMER_OFFSET,
                    ext={
                        "consumerGroup": self._group,
                        "topic": one.queue.topic,
                        "queueId": str(one.queue.queue_id),
                        "commitOffset": str(done),
                    },
                )
                with suppress(ClientError):
                    _check(await self._links.call(one.queue.address, command))
                    one.committed = done

    def _goodbye(self) -> Command:
        return Command(
            RequestCode.UNREGISTER_CLIENT,
            ext={"clientID": self._client_id, "producerGroup": "", "consumerGroup": self._group},
        )

    def _on_request(self, _address: str, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            assert command.flag & FLAG_ONEWAY
            self._wake()

    def _wake(self) -> None:
        self._look_again.set()
        self._look_again = trio.Event()


_PULL_ANSWERS = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def allocate(queues: list[TopicQueue], members: list[str], member: str) -> list[TopicQueue]:
    """The share of one member: neighbouring queues, the first members get one more.

    Source: Java ``AllocateMessageQueueAveragely``.
    """
    if member not in members:
        return []
    ordered = sorted(queues, key=lambda one: (one.topic, one.broker_name, one.queue_id))
    index, count = members.index(member), len(members)
    extra = len(ordered) % count
    size = math.floor(len(ordered) / count) + (1 if index < extra else 0)
    start = index * size if index < extra else index * size + extra
    return ordered[start : start + size]


def _check(answer: Command) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefusedError(answer.code, answer.remark or "")
    return answer
