"""The consumer: iterates over the messages of topics, shared among the members of a group.

A group's members divide the queues of each topic among themselves (``allocate``). A membership
change (pushed by the broker as code 40) or 20 seconds make everyone look again. Each queue of ours
has one long pull under way (``process_queue``). Offsets are committed every five seconds and at the
end, as far as ``commit`` has been called: delivery is at least once.

A message that could not be handled may be sent back. The broker puts it on the group's retry topic,
which every consumer of the group that takes retries reads beside its own topics; after too many
tries it becomes a dead letter.

Source: Java ``DefaultMQPushConsumerImpl``, ``RebalanceImpl``, ``sendMessageBack``.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Literal

import attrs
import trio

from timermq.remoting import Command, RequestCode
from timermq.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    decode_consumer_list,
)
from timermq.remoting.client_header import ConsumersHeader, UnregisterHeader
from timermq.remoting.send_back_header import SendBackHeader

from .access import Credentials, over_tls
from .allocate import allocate
from .background import BackgroundTasks
from .consumer_history import ConsumerHistory
from .errors import ClientError, NoRouteError, check_answer, reading_answer
from .history import HistoryWriter
from .link import Links, OpenStream
from .log import warn
from .message import ReceivedMessage
from .moment import now_ms
from .process_queue import ProcessQueue, Pulled, Subscribed
from .route import Routes, TopicQueue, name_servers

HEARTBEAT_SECONDS = 30.0
REBALANCE_SECONDS = 20.0
COMMIT_SECONDS = 5.0
LOOK_AGAIN_SECONDS = 1.0
"""Before a heartbeat or rebalance that failed, or a topic that is not there yet, is retried."""
EXIT_SECONDS = 5.0
"""For the last commits and the goodbye."""
DRAINED_SECONDS = 2.0
"""Of these, for asking how far the queues go."""
PULLED_MAX = 4
"""Answers of pulls that wait for the iteration; each queue may hold another one."""
RETRY_PREFIX = "%RETRY%"
GIVE_UP_LEVEL = -1
"""The delay level that asks for no further try."""
_POSITION_DIGITS = 16
"""Of an offset message id, the last."""


class Consumer:
    """Receives messages of a group; use it as an async context manager and iterate over it.

    Args:
        namesrv: ``host:port`` of the name server, several separated by ``;``.
        group: Consumer group.
        topics: Topic to tag expression: ``*``, or tags separated by ``||``.
        start_from: Where a group begins that has committed nothing: at the first message there is,
            or behind the last. A queue that is made later is read from its first message.
        retries: Take what the group has sent back as well; needed for ``send_back``. Such messages
            are of the topic ``%RETRY%group``; ``original_topic`` says where they were at first.
        credentials: The account that signs its requests.
        tls: Connections speak TLS by it; `ssl.create_default_context` makes one.
        open_stream: Opens a TCP stream.
        clock_ms: The wall clock.
        history: Takes what is received; what it cannot write ends the iteration with ``OSError``.

    Raises:
        ValueError: ``namesrv`` is no list of addresses; or retries were to go into a history, which
            knows nothing of messages that come again.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        group: str,
        topics: Mapping[str, str],
        start_from: Literal["first", "last"] = "last",
        retries: bool = False,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        open_stream: OpenStream = trio.open_tcp_stream,
        clock_ms: Callable[[], int] = now_ms,
        history: HistoryWriter | None = None,
    ) -> None:
        if retries and history is not None:
            raise ValueError("expected a consumer with retries or with a history, found both")
        version = clock_ms()
        self._servers = name_servers(namesrv)
        self._group = group
        self._clock_ms = clock_ms
        self._subscribed = {
            topic: Subscribed(
                group=group,
                topic=topic,
                expression=expression,
                version=version,
                start_from=start_from,
            )
            for topic, expression in topics.items()
        }
        self._retries = retries
        if retries:
            topic = retry_topic(group)
            self._subscribed[topic] = Subscribed(
                group=group, topic=topic, expression="*", version=version, start_from="first"
            )
        self._start_from = start_from
        self._open_stream = over_tls(open_stream, tls)
        self._credentials = credentials
        self._client_id = f"timermq@{os.getpid()}#{secrets.token_hex(4)}"
        self._queues: dict[TopicQueue, ProcessQueue] = {}
        self._there_before: dict[str, set[tuple[str, int]]] = {}
        """Topic to broker and number of the queues that there were when it was first looked at."""
        self._registered: set[str] = set()
        """Brokers that know us."""
        self._look_again = trio.Event()
        self._background = BackgroundTasks()
        self._history = None if history is None else ConsumerHistory(history, group)
        self._give, self._take = trio.open_memory_channel[Pulled](PULLED_MAX)
        self._current: deque[ReceivedMessage] = deque()
        self._pulled: Pulled | None = None

    async def __aenter__(self) -> Consumer:
        """Register with the brokers and begin to pull, as soon as there are queues."""
        self._nursery = await self._background.__aenter__()
        self._links = Links(
            self._nursery, self._on_request, self._open_stream, credentials=self._credentials
        )
        self._routes = Routes(self._links, self._servers, trio.current_time)
        self._nursery.start_soon(self._run_every, self._heartbeat, name="heartbeat")
        self._nursery.start_soon(self._run_every, self._rebalance, name="rebalance")
        self._nursery.start_soon(self._run_every, self._commit_all, name="commit")
        if self._history is not None:
            self._history.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Commit, say goodbye, close; at most five seconds, also when cancelled."""
        with trio.move_on_after(EXIT_SECONDS, shield=True):
            if self._history is not None:
                await self._end_history(self._history)
            for one in self._queues.values():
                one.drop()
            await self._commit_all()
            async with trio.open_nursery() as nursery:
                for address in self._registered.intersection(self._links.addresses()):
                    nursery.start_soon(self._leave, address)
        return await self._background.__aexit__(kind, error, trace)

    def __aiter__(self) -> Consumer:
        """Messages for ever, in order within each queue."""
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message.

        Cancellation: no message is taken.
        """
        if self._pulled is None or not self._pulled.is_current or not self._current:
            self._pulled = None
            while self._pulled is None:
                pulled = await self._take.receive()
                if pulled.is_current:
                    self._pulled, self._current = pulled, deque(pulled.messages)
        else:
            await trio.lowlevel.checkpoint()
        message = self._current.popleft()
        if self._history is not None:
            self._history.deliver(message)
        return message

    async def commit(self, message: ReceivedMessage) -> None:
        """Everything of the message's queue up to it is done; sent with the next commit.

        A message of a queue that has gone to another member is ignored: it comes again there.
        """
        await trio.lowlevel.checkpoint()
        place = (message.topic, message.broker_name, message.queue_id)
        for queue, one in self._queues.items():
            if (queue.topic, queue.broker_name, queue.queue_id) == place:
                one.done_up_to(message.queue_offset)

    async def send_back(self, message: ReceivedMessage, *, level: int = 0) -> None:
        """Get the message again later: for one that could not be handled. Commit it afterwards.

        Args:
            message: One that this consumer has given out.
            level: How long to wait, one of RocketMQ's delay levels. 0: longer with each try, 10
                seconds at first; the broker makes it a dead letter (``%DLQ%group``) after as many
                tries as the group may have, 16 unless an operator says otherwise.

        Raises:
            ValueError: The consumer does not take retries, or there is no such level.
            BrokerRefusedError: The broker does not cancel it; ``rule`` says why.
            ClientError: Without an answer it may come again or not; so it is not to be committed.

        Cancellation: it may come again.
        """
        if level < 0:
            raise ValueError(f"level: expected 0 or more, found {level}")
        if not self._retries:
            raise ValueError("send_back: expected a consumer with retries=True")
        await self._send_back(message, level)

    async def give_up(self, message: ReceivedMessage) -> None:
        """Make the message a dead letter of the group (``%DLQ%group``). Commit it afterwards.

        Raises:
            BrokerRefusedError: The broker does not take it; ``rule`` says why.
            ClientError: Without an answer it may be one or not; so it is not to be committed.

        Cancellation: it may be a dead letter.
        """
        await self._send_back(message, GIVE_UP_LEVEL)

    async def _send_back(self, message: ReceivedMessage, level: int) -> None:
        for queue in await self._routes.readable(message.topic):
            if queue.broker_name == message.broker_name:
                request = send_back_request(self._group, message, level)
                check_answer(await self._links.call(queue.address, request))
                return
        raise NoRouteError(f"topic {message.topic}: no route to broker {message.broker_name}")

    async def _run_every(self, work: Callable[[], Awaitable[float]]) -> None:
        """Do ``work`` again and again, each time after the seconds that it says."""
        while True:
            again = self._look_again
            with trio.move_on_after(await work()):
                await again.wait()

    async def _heartbeat(self) -> float:
        """Tell every broker of our topics that we are there; one that is down hinders no other."""
        addresses = {queue.address for queue in self._queues}
        pause = HEARTBEAT_SECONDS
        for topic in self._subscribed:
            try:
                addresses |= {queue.address for queue in await self._routes.readable(topic)}
            except ClientError as error:
                self._warn("no route", error)
                pause = LOOK_AGAIN_SECONDS
        failed: list[str] = []
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(self._heartbeat_to, address, failed)
        return LOOK_AGAIN_SECONDS if failed else pause

    async def _heartbeat_to(self, address: str, failed: list[str]) -> None:
        try:
            await self._register(address)
        except ClientError as error:
            self._warn("heartbeat failed", error)
            failed.append(address)

    async def _register(self, address: str) -> None:
        command = Command(RequestCode.HEART_BEAT, body=self._heartbeat_body())
        check_answer(await self._links.call(address, command))
        self._registered.add(address)

    async def _leave(self, address: str) -> None:
        header = UnregisterHeader(
            client_id=self._client_id, producer_group="", consumer_group=self._group
        )
        command = Command(RequestCode.UNREGISTER_CLIENT, ext=header.to_ext())
        with suppress(ClientError):  # then the broker notices by itself
            await self._links.call(address, command)

    def _heartbeat_body(self) -> bytes:
        subscriptions = [
            SubscriptionData(topic=one.topic, sub_string=one.expression, sub_version=one.version)
            for one in self._subscribed.values()
        ]
        consumer = ConsumerData(
            group_name=self._group,
            consume_from_where=f"CONSUME_FROM_{self._start_from.upper()}_OFFSET",
            subscriptions=subscriptions,
        )
        return HeartbeatData(client_id=self._client_id, consumers=[consumer]).encode()

    async def _rebalance(self) -> float:
        """Take our share of each topic's queues; a topic that fails keeps what it has."""
        pause = REBALANCE_SECONDS
        for topic in self._subscribed:
            try:
                queues = await self._routes.readable(topic)
                share = await self._share(queues) if queues else []
            except ClientError as error:
                self._warn("rebalance failed", error)
                pause = LOOK_AGAIN_SECONDS
                continue
            if not queues:  # it is made by the first send to it
                pause = LOOK_AGAIN_SECONDS
            there = {(queue.broker_name, queue.queue_id) for queue in queues}
            self._there_before.setdefault(topic, there)
            await self._assign(topic, set(share))
        return pause

    async def _share(self, queues: list[TopicQueue]) -> list[TopicQueue]:
        """Our share; every broker of a topic knows all members, so the first that answers does."""
        addresses = list(dict.fromkeys(queue.address for queue in queues))
        for address in addresses[:-1]:
            with suppress(ClientError):
                return allocate(queues, await self._members(address), self._client_id)
        return allocate(queues, await self._members(addresses[-1]), self._client_id)

    async def _members(self, address: str) -> list[str]:
        await self._register(address)  # before asking: the list must contain us
        ext = ConsumersHeader(consumer_group=self._group).to_ext()
        command = Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext=ext)
        answer = check_answer(await self._links.call(address, command))
        with reading_answer("members of the group"):
            return decode_consumer_list(answer.body)

    async def _assign(self, topic: str, share: set[TopicQueue]) -> None:
        """Leave queues that are gone, committed first; pull new ones."""
        for queue in [one for one in self._queues if one.topic == topic and one not in share]:
            gone = self._queues[queue]
            gone.drop()
            await self._commit(gone)
            del self._queues[queue]
        for queue in share - set(self._queues):
            self._queues[queue] = ProcessQueue(
                queue,
                self._subscription(queue),
                links=self._links,
                routes=self._routes,
                give=self._give,
                clock_ms=self._clock_ms,
            )
            self._nursery.start_soon(self._queues[queue].run, name=f"pull {queue}")

    def _subscription(self, queue: TopicQueue) -> Subscribed:
        """The subscription in a queue: from the first message if it was not there when we came."""
        subscribed = self._subscribed[queue.topic]
        if (queue.broker_name, queue.queue_id) in self._there_before[queue.topic]:
            return subscribed
        return attrs.evolve(subscribed, start_from="first")

    async def _end_history(self, history: ConsumerHistory) -> None:
        """Write what has been seen; brokers that do not say soon how far they are leave it open."""
        asked_ms = self._clock_ms()
        drained: tuple[str, ...] = ()
        with trio.move_on_after(DRAINED_SECONDS):
            drained = await self._drained()
        history.end(asked_ms, drained)

    async def _drained(self) -> tuple[str, ...]:
        """Topics of which our share has been given out, from the first message to the last."""
        is_behind = bool(self._current or self._take.statistics().current_buffer_used)
        if is_behind or self._start_from == "last":
            return ()
        drained: list[str] = []
        for topic, subscribed in self._subscribed.items():
            mine = [one for queue, one in self._queues.items() if queue.topic == topic]
            is_whole = subscribed.expression == "*" and topic in self._there_before
            with suppress(ClientError):
                if is_whole and all([await one.is_drained() for one in mine]):
                    drained.append(topic)
        return tuple(drained)

    async def _commit_all(self) -> float:
        for one in list(self._queues.values()):
            await self._commit(one)
        return COMMIT_SECONDS

    async def _commit(self, one: ProcessQueue) -> None:
        try:
            await one.commit()
        except ClientError as error:
            self._warn("commit failed", error)

    def _warn(self, what: str, error: ClientError) -> None:
        warn(what, group=self._group, reason=str(error))

    def _on_request(self, _address: str, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._look_again.set()
            self._look_again = trio.Event()


def retry_topic(group: str) -> str:
    """The retry topic of a group: the messages that it has sent back."""
    return RETRY_PREFIX + group


def send_back_request(group: str, message: ReceivedMessage, level: int) -> Command:
    """The request that gives a message back.

    Args:
        group: The consumer's.
        message: As it was received.
        level: Delay level; 0: the broker counts the tries. ``GIVE_UP_LEVEL``: no further one.
    """
    header = SendBackHeader(
        group=group,
        offset=int(message.offset_message_id[-_POSITION_DIGITS:], 16),
        delay_level=level,
        origin_message_id=message.message_id,
        origin_topic=message.original_topic,
    )
    return Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext=header.to_ext())
