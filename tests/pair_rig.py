"""A master and its follower, joined by streams in memory, on the staged clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from broker_rig import (
    BROKER,
    STORE,
    TIMER,
    RunningBroker,
    open_broker,
    pull_ext,
    split_records,
)
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import StoreOptions

MASTER_PORT, HA_PORT = 10_911, 10_912
MASTER = f"127.0.0.1:{MASTER_PORT}"
FOLLOWER_PORT, FOLLOWER_HA_PORT = 20_911, 20_912
FOLLOWER = f"127.0.0.1:{FOLLOWER_PORT}"
FOLLOWS = attrs.evolve(
    BROKER, follow=MASTER, ha_master_address=f"127.0.0.1:{HA_PORT}", slave_read_enable=True
)

Cut = Callable[[trio.abc.Stream], trio.abc.Stream]
"""Changes the follower's end of a link."""


@attrs.define(eq=False)
class Pair:
    """Two brokers of one name; each may be down."""

    clock: VirtualClock
    nursery: trio.Nursery
    master_disk: MemoryDisk
    follower_disk: MemoryDisk
    store_options: StoreOptions
    timer_options: TimerOptions
    tells_links: bool = False
    """Both say at which port their logs can be read, as brokers of ours do."""
    cut: Cut = lambda stream: stream
    master: RunningBroker | None = None
    follower: RunningBroker | None = None
    links: list[trio.abc.Stream] = attrs.field(factory=list[trio.abc.Stream])
    """The follower's ends of links to the master's log."""
    calls: list[trio.abc.Stream] = attrs.field(factory=list[trio.abc.Stream])
    """The follower's ends of connections to the master's port for clients."""
    ended: dict[Broker, trio.Event] = attrs.field(factory=dict[Broker, trio.Event])

    async def start_master(self, options: BrokerOptions = BROKER) -> RunningBroker:
        """Begin to serve the master's store."""
        broker = open_broker(
            self.clock,
            disk=self.master_disk,
            options=options,
            store_options=self.store_options,
            timer_options=self.timer_options,
            address=MASTER,
            ha_address=f"127.0.0.1:{HA_PORT}" if self.tells_links else "",
            open_stream=self.open_stream,
        )
        if self.tells_links:
            broker.succession.begin_first()
        self.master = await self._run(broker)
        self.nursery.start_soon(self._feed, broker)
        return self.master

    async def _feed(self, broker: Broker) -> None:
        """Feed followers as long as the broker lives."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.master_side.service.run, None)
            await self.ended[broker].wait()
            nursery.cancel_scope.cancel()

    async def start_follower(
        self, options: BrokerOptions = FOLLOWS, store_options: StoreOptions | None = None
    ) -> RunningBroker:
        """Begin to serve the follower's store."""
        broker = open_broker(
            self.clock,
            disk=self.follower_disk,
            options=options,
            store_options=store_options or self.store_options,
            timer_options=self.timer_options,
            address=FOLLOWER,
            ha_address=f"127.0.0.1:{FOLLOWER_HA_PORT}" if self.tells_links else "",
            open_stream=self.open_stream,
        )
        self.follower = await self._run(broker)
        return self.follower

    async def _run(self, broker: Broker) -> RunningBroker:
        self.ended[broker] = trio.Event()
        await self.nursery.start(self._live, broker)
        return RunningBroker(broker, self.clock, self.nursery)

    async def _live(self, broker: Broker, *, task_status: trio.TaskStatus[object]) -> None:
        try:
            await broker.run(task_status=task_status)
        finally:
            self.ended[broker].set()

    async def open_stream(self, _host: str, port: int) -> trio.abc.Stream:
        """A connection to one of the ports of either; refused of one that is down."""
        is_masters = port in (MASTER_PORT, HA_PORT)
        running = self.master if is_masters else self.follower
        if running is None or self.ended[running.broker].is_set():
            raise ConnectionRefusedError(111, "Connection refused")
        broker = running.broker
        ours, theirs = trio.testing.memory_stream_pair()
        if port in (MASTER_PORT, FOLLOWER_PORT):
            self.nursery.start_soon(broker.server.serve, theirs, ("127.0.0.1", 40_000))
            if is_masters:
                self.calls.append(ours)
            return ours
        self.nursery.start_soon(broker.master_side.service.serve, theirs, ("127.0.0.1", 40_001))
        if not is_masters:
            return ours
        self.links.append(ours)
        return self.cut(ours)

    async def kill_master(self) -> None:
        """End the master as SIGKILL does."""
        assert self.master is not None
        for link in (*self.links, *self.calls):
            await trio.aclose_forcefully(link)
        self.links.clear()
        self.calls.clear()
        await self._kill(self.master, self.master_disk)
        self.master = None

    async def kill_follower(self) -> None:
        """The same for the follower."""
        assert self.follower is not None
        await self._kill(self.follower, self.follower_disk)
        self.follower = None

    async def _kill(self, running: RunningBroker, disk: MemoryDisk) -> None:
        running.broker.abort()
        await self.ended[running.broker].wait()
        disk.process_kill()

    async def linked(self) -> None:
        """Until the follower has a link."""
        assert self.follower is not None
        state = self.follower.broker.tables.follow_state
        await _until(lambda: state.is_linked)

    async def level(self) -> None:
        """Until the follower has what the master has."""
        assert self.master is not None
        assert self.follower is not None
        mine, theirs = (one.broker.store.commit_log for one in (self.master, self.follower))
        await _until(lambda: theirs.max_offset >= mine.max_offset)


@asynccontextmanager
async def pair(
    *,
    store_options: StoreOptions = STORE,
    timer_options: TimerOptions = TIMER,
    tells_links: bool = False,
) -> AsyncGenerator[Pair]:
    """A pair of which neither runs yet; what runs is killed at the end."""
    clock = VirtualClock()
    async with trio.open_nursery() as nursery:
        yield Pair(
            clock,
            nursery,
            MemoryDisk(now_ms=clock.now_ms),
            MemoryDisk(now_ms=clock.now_ms),
            store_options,
            timer_options,
            tells_links,
        )
        nursery.cancel_scope.cancel()


def log_bytes(store: MessageStore) -> bytes:
    """The whole log, from its first segment on."""
    log = store.commit_log
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return data[: log.max_offset - log.min_offset]


async def bodies(running: RunningBroker, topic: str = "T") -> list[bytes]:
    """The bodies in queue 0 of a topic."""
    peer = running.connect()
    found: list[bytes] = []
    while True:
        answer = await peer.call(11, pull_ext(topic, queueOffset=str(len(found))))
        if answer.code:
            return found
        found += [decode_record(data).body for data in split_records(answer.body)]


async def _until(is_so: Callable[[], bool]) -> None:
    """Wait for something, ten minutes of the staged clock at most."""
    for _ in range(12_000):
        if is_so():
            return
        await trio.sleep(0.05)
    raise trio.TooSlowError
