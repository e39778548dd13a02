"""A broker for tests: its processors over a store in memory, with or without connections."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import trio
import trio.testing

from fakes import ManualClock, VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.namesrv.name_server_link import OpenStream, open_tcp
from timermq.broker.options import BrokerOptions
from timermq.broker.session import Answer, Session, pack_born_host
from timermq.pipeline.clock.clock import Clock, WatchedClock
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting import Coding, Command, FrameConnection, LanguageCode
from timermq.remoting.connection import Received
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.store_options import StoreOptions

ROOT = "/store"
ADDRESS = "127.0.0.1:10911"
ID_PREFIX = "7F00000100002A9F"

BROKER = BrokerOptions(listen_port=0, namesrv_listen_port=0)
STORE = StoreOptions(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=2_000,
    max_message_size=1 << 16,
    max_hash_slot_num=100,
    max_index_num=400,
)
TIMER = TimerOptions(
    slots_total=7_200, timer_max_delay_sec=86_400, mapped_file_size_timer_log=5_200
)

PROPERTIES = "UNIQ_KEY\x01K1\x02WAIT\x01true\x02"


class RecordingSession:
    """A session that keeps what is sent to it."""

    def __init__(
        self, *, language: LanguageCode = LanguageCode.JAVA, peer: str = "127.0.0.1"
    ) -> None:
        self.sent: list[Command] = []
        self._kept = trio.Event()
        self.closed_for: str | None = None
        self.has_room = True
        self._waiting: list[Callable[[], None]] = []
        self.session = Session(
            remote_address=f"{peer}:40000",
            has_room=lambda: self.has_room,
            when_room=self._waiting.append,
            peer=peer,
            born_host=pack_born_host("127.0.0.1", 40_000),
            queue=self._keep,
            flush=lambda: None,
            start_soon=lambda _: False,
            close=self._close,
            language=language,
            version=479,
        )

    def _keep(self, answer: Answer) -> None:
        self.sent += commands_in([answer])
        self._kept.set()
        self._kept = trio.Event()

    def tell_room(self) -> None:
        """The peer has read: what waits for that is called."""
        self.has_room = True
        calls, self._waiting[:] = list(self._waiting), []
        for call in calls:
            call()

    async def wait_sent(self, count: int = 1) -> None:
        """Wait until so much was sent."""
        while len(self.sent) < count:
            await self._kept.wait()

    def _close(self, reason: str) -> None:
        self.closed_for = reason


def open_broker(
    clock: Clock,
    *,
    disk: Disk | None = None,
    options: BrokerOptions = BROKER,
    store_options: StoreOptions = STORE,
    timer_options: TimerOptions = TIMER,
    listeners: tuple[trio.SocketListener, ...] = (),
    steady_ms: Callable[[], float] | None = None,
    address: str = ADDRESS,
    ha_address: str = "",
    open_stream: OpenStream = open_tcp,
) -> Broker:
    """A broker over a store in memory; without listeners no client connects to it.

    Unless there is a steady clock, the wall clock is taken for one: no step of it is seen. Its
    options are its own: they may be changed while it serves.
    """
    options, store_options = attrs.evolve(options), attrs.evolve(store_options)
    timer_options = attrs.evolve(timer_options)
    watched = WatchedClock(clock, timer_options, steady_ms or clock.now_ms)
    host = pack_host("127.0.0.1", 10_911)
    store = MessageStore.open(
        disk if disk is not None else MemoryDisk(now_ms=clock.now_ms),
        ROOT,
        store_options,
        now_ms=watched.now_ms,
        store_host=host,
    )
    return Broker(
        endpoint=Endpoint(
            listeners=listeners,
            address=address,
            listen=address,
            namesrv_listen=None,
            store_host=host,
            ha_address=ha_address,
        ),
        timer_store=TimerMessageStore(store, timer_options, watched),
        options=options,
        clock=watched,
        work_seconds=trio.current_time,
        open_stream=open_stream,
    )


def commands_in(answers: Iterable[Answer]) -> list[Command]:
    """Answers as commands, whichever form they have."""
    commands: list[Command] = []
    for answer in answers:
        if isinstance(answer, bytes):
            connection = FrameConnection()
            connection.receive_data(answer)
            commands += connection.events()
        else:
            commands.append(answer)
    return commands


class StandingClock(trio.abc.Clock):
    """trio's clock of a broker that stands still: it shows what a wall clock is set to."""

    def __init__(self, wall: ManualClock) -> None:
        self._wall = wall

    def start_clock(self) -> None:
        """Every run goes on where the one before has ended."""

    def current_time(self) -> float:
        """The time of the wall clock, in seconds."""
        return self._wall.now_ms() / 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long to wait for a deadline, in seconds."""
        return deadline - self.current_time()


class Rig:
    """A broker that stands still: requests go to its dispatcher, and no task runs."""

    def __init__(
        self,
        *,
        disk: Disk | None = None,
        options: BrokerOptions = BROKER,
        store_options: StoreOptions = STORE,
        timer_options: TimerOptions = TIMER,
    ) -> None:
        self.clock = ManualClock()
        self.broker = open_broker(
            self.clock,
            disk=disk,
            options=options,
            store_options=store_options,
            timer_options=timer_options,
        )
        self.peer = RecordingSession()
        self._opaques = itertools.count(1)

    def command(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
        language: LanguageCode = LanguageCode.JAVA,
        version: int = 479,
    ) -> Command:
        """A request with an opaque of its own."""
        return Command(
            code,
            opaque=next(self._opaques),
            flag=flag,
            language=language,
            version=version,
            ext=dict(ext or {}),
            body=body,
        )

    def handle(self, *commands: Command, peer: RecordingSession | None = None) -> list[Command]:
        """What is answered at once to some requests that come together."""
        return commands_in(self.answers(commands, peer=peer))

    def answers(
        self, requests: Sequence[Received], *, peer: RecordingSession | None = None
    ) -> list[Answer]:
        """The same, in the form that it has; the broker finds a clock of trio's, as it needs."""
        session = (peer or self.peer).session

        async def handle() -> list[Answer]:
            return self.broker.dispatcher.handle(session, requests)

        if trio.lowlevel.in_trio_run():
            return self.broker.dispatcher.handle(session, requests)
        return trio.run(handle, clock=StandingClock(self.clock))

    def call(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        peer: RecordingSession | None = None,
    ) -> Command:
        """The one answer to one request."""
        session = (peer or self.peer).session
        command = self.command(code, ext, body, language=session.language, version=session.version)
        (answer,) = self.handle(command, peer=peer)
        assert answer.opaque == command.opaque
        assert answer.is_response
        return answer

    def send(
        self, topic: str, body: bytes = b"hello", properties: str = PROPERTIES, **ext: str
    ) -> Command:
        """The answer to a send (code 10) to queue 0."""
        return self.call(10, send_ext(topic, properties, **ext), body)

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        """What stands in a queue."""
        result = self.broker.store.get(topic, queue_id, 0, count_max=32, bytes_max=1 << 20)
        return [decode_record(data) for run in result.records for data in split_records(run)]


def send_ext(topic: str, properties: str = PROPERTIES, **more: str) -> dict[str, str]:
    """The parameters of a send to queue 0."""
    return {
        "producerGroup": "PID",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": properties,
        **more,
    }


def pull_ext(topic: str, group: str = "G", **more: str) -> dict[str, str]:
    """The parameters of a pull of everything in queue 0, without waiting."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        **more,
    }


def as_object(value: object) -> dict[str, Any]:
    """A parsed or to be printed JSON object, for tests to look into."""
    assert isinstance(value, dict)
    return cast("dict[str, Any]", value)


def split_records(run: bytes) -> list[bytes]:
    """The records that stand one after the other."""
    records: list[bytes] = []
    while run:
        size = int.from_bytes(run[:4], "big")
        records.append(run[:size])
        run = run[size:]
    return records


@attrs.define(eq=False)
class Peer:
    """The client's end of a connection, frame by frame."""

    stream: trio.abc.Stream
    frames: FrameConnection = attrs.Factory(FrameConnection)
    received: list[Command] = attrs.Factory(list[Command])
    opaques: itertools.count[int] = attrs.Factory(lambda: itertools.count(1))

    async def send(self, *commands: Command) -> None:
        """Send some requests in one piece."""
        await self.stream.send_all(b"".join(map(self.frames.encode, commands)))

    async def send_end(self) -> None:
        """Close the sending side; the broker's answers still arrive."""
        stream = cast(
            "trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]", self.stream
        )
        await stream.send_stream.aclose()

    async def receive(self) -> Command | None:
        """The next command from the broker; None at the end."""
        while not self.received:
            data = await self.stream.receive_some(65_536)
            if not data:
                return None
            self.frames.receive_data(bytes(data))
            self.received += self.frames.events()
        return self.received.pop(0)

    async def call(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        coding: Coding = Coding.JSON,
        language: LanguageCode = LanguageCode.JAVA,
    ) -> Command:
        """The answer to one request."""
        command = Command(
            code,
            opaque=next(self.opaques),
            language=language,
            ext=dict(ext or {}),
            body=body,
            coding=coding,
        )
        await self.send(command)
        answer = await self.receive()
        assert answer is not None
        assert answer.opaque == command.opaque
        return answer


@attrs.frozen(eq=False)
class RunningBroker:
    """A broker whose tasks run, reached by streams in memory."""

    broker: Broker
    clock: VirtualClock
    nursery: trio.Nursery

    def connect(self, host: str = "127.0.0.1") -> Peer:
        """Connect a new client to the broker, which sees it come from this address."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.broker.server.serve, ours, (host, 40_000))
        return Peer(theirs)

    def connect_lockstep(self, host: str = "127.0.0.1") -> Peer:
        """A new connection without any buffer: what the peer does not read, the broker keeps."""
        ours, theirs = trio.testing.lockstep_stream_pair()
        self.nursery.start_soon(self.broker.server.serve, ours, (host, 40_001))
        return Peer(theirs)


@asynccontextmanager
async def running_broker(
    *,
    disk: Disk | None = None,
    options: BrokerOptions = BROKER,
    store_options: StoreOptions = STORE,
    timer_options: TimerOptions = TIMER,
) -> AsyncGenerator[RunningBroker, None]:
    """A broker on the staged clock, stopped gracefully at the end; no sockets, no threads."""
    clock = VirtualClock()
    broker = open_broker(
        clock,
        disk=disk,
        options=options,
        store_options=store_options,
        timer_options=timer_options,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        async with trio.open_nursery() as connections:
            yield RunningBroker(broker, clock, connections)
            connections.cancel_scope.cancel()
        broker.request_stop()
