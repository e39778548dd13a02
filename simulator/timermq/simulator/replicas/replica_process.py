"""One process of a replica: the real broker and what `timermq serve` does around it.

A broker that is fenced, or hands over, goes on as a follower in the same process: its next life.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from random import Random

import attrs
import trio

from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.diverged_records import DivergedRecords
from timermq.broker.replication.replica_calls import ReplicaCalls
from timermq.broker.replication.replication_options import Confirm
from timermq.broker.replication.role import BrokerRole
from timermq.broker.replication.start_role import prepare_start
from timermq.client.history import Crash, Event, Fault
from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message import pack_host

from ..causes_in_words import in_words
from ..disks.memory_disk import MemoryDisk
from ..process import CHECK_MS, DISK_SIZE, ROOT, TRIGGER_SECONDS, AwaitCounter
from ..process_disk import ProcessDisk
from ..scenario import EndKind, Trigger
from ..staged.staged_clock import StagedClock
from .replica_lines import HOST, ReplicaLines, ReplicaPorts
from .replica_log import LogCopy, log_of
from .replica_scenario import ReplicaFault, ReplicaScenario
from .staged_etcd import PORT as ETCD_PORT
from .staged_etcd import StagedEtcd
from .watched_store import WatchedStore

SAVING_MS = 60_000
"""Milliseconds between two saves of committed offsets, and two checkpoints of timers."""
FOLLOW_MS = 20_000
"""Milliseconds between a follower's questions."""
_RUNNING: ContextVar[ReplicaProcess] = ContextVar("running process")
"""Whose task it is: all tasks of a process are begun by its own."""


@attrs.define(eq=False)
class ReplicaNode:
    """One broker of the name, with what outlives its processes."""

    scenario: ReplicaScenario
    ports: ReplicaPorts
    lines: ReplicaLines
    clock: StagedClock
    disk: MemoryDisk
    tell: Callable[[Event], None]
    complain: Callable[[str], None]
    follow: str | None
    """The address that the operator has it follow at its next start; None: a master."""
    lost: list[LogCopy] = attrs.field(factory=list[LogCopy])
    """Parts of its log that were cut off, or that no promoted broker had."""
    last_log: LogCopy = attrs.field(factory=lambda: LogCopy(0, b""))
    """Its log as it last ended while it led, before a power cut took any of it."""
    on_get: Callable[[ReplicaNode, tuple[bytes, ...]], None] = lambda _node, _records: None
    """Takes what its broker has read for consumers."""
    on_put: Callable[[ReplicaNode], None] = lambda _node: None
    """Called when its broker has written."""
    before_loss: Callable[[], None] = lambda: None
    """Called before its disk loses anything."""
    etcd: StagedEtcd | None = None
    """The engine of its lease, if it leads by one."""
    process: ReplicaProcess | None = None
    starts: int = 0
    disks: int = 0
    may_run: trio.Event = attrs.field(factory=trio.Event)
    """Set: it is started again whenever its process has ended."""

    @property
    def name(self) -> str:
        """As the history calls it."""
        return f"broker-{self.ports.number}"

    @property
    def broker(self) -> Broker | None:
        """The broker that serves now; None: there is none."""
        process = self.process
        return None if process is None or process.is_over else process.broker

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Open a connection to another broker, or to the engine of the lease.

        Raises:
            OSError: Nothing listens there, or it is out of reach.

        Cancellation: nothing has changed.
        """
        if self.etcd is not None and port == ETCD_PORT:
            return await self.etcd.open(self.ports.number)
        return await self.lines.open(host, port)

    def steady_ms(self) -> float:
        """Milliseconds of its clock that cannot be set, which may be fast or slow."""
        lease = self.scenario.lease
        rate = 1.0 if lease is None else lease.rates[self.ports.number]
        return trio.current_time() * 1000 * rate

    def options(self) -> BrokerOptions:
        """The settings of its next process."""
        scenario, is_first = self.scenario, self.follow is None
        lease = scenario.lease
        role = BrokerRole.SYNC_MASTER if scenario.is_confirmed else BrokerRole.ASYNC_MASTER
        confirmed = 2 if scenario.is_confirmed else 1
        return BrokerOptions(
            listen_host=HOST,
            listen_port=self.ports.port,
            ha_listen_port=self.ports.ha_port,
            broker_role=role if is_first else None,
            broker_id=None if is_first else self.ports.number + 1,
            follow=self.follow,
            lease=None
            if lease is None
            else f"etcd://{HOST}:{ETCD_PORT}/pair?ttl={lease.ttl_ms / 1000:g}",
            lease_margin_ms=1_000 if lease is None else lease.margin_ms,
            in_sync_replicas=confirmed,
            min_in_sync_replicas=confirmed,
            confirm=Confirm.REPLICATED if scenario.is_confirmed else Confirm.OWN,
            follow_interval_ms=FOLLOW_MS,
            follow_tables_interval_ms=FOLLOW_MS,
            ha_transfer_batch_size=scenario.transfer_size,
            flush_consumer_offset_interval_ms=SAVING_MS,
            transaction_check_interval_ms=CHECK_MS,
            receive_size=scenario.network.receive_size,
            unread_output_size_max=scenario.network.unread_output_size_max,
        )

    def lose_disk(self) -> None:
        """Its disk is gone for good; a new one is empty."""
        self.before_loss()
        self.disks += 1
        self.disk = new_disk(self.scenario, self.clock, f"{self.ports.number} {self.disks}")


def new_disk(scenario: ReplicaScenario, clock: StagedClock, name: str) -> MemoryDisk:
    """An empty disk, whose syncs take time."""
    disk = MemoryDisk(now_ms=clock.now_ms, total=DISK_SIZE)
    draw = Random(f"syncs of {scenario.seed} {name}")  # noqa: S311 - a plan, not a secret
    disk.sync_seconds = lambda: draw.uniform(0, scenario.sync_max_ms) / 1000
    return disk


def is_over_here() -> bool:
    """Whether the process whose task runs now is over: what it does yet, a killed one does not.

    A task that was to go on when its process ended takes one more step, with all its files closed.
    """
    process = _RUNNING.get(None)
    return process is not None and process.is_over


class ReplicaProcess:
    """One process; ``live`` is its life.

    Args:
        node: Whose process it is.
    """

    def __init__(self, node: ReplicaNode) -> None:
        self.broker: Broker | None = None
        """The broker, once it takes requests."""
        self.is_over = False
        self._node = node
        self._disk = ProcessDisk(node.disk)
        self._options = node.options()
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        node.starts += 1
        self._draw = Random(f"{node.scenario.seed} {node.name} {node.starts}")  # noqa: S311

    async def live(self) -> None:
        """Serve, life after life, until it is stopped or killed."""
        node = self._node
        _RUNNING.set(self)
        try:
            with self._scope:
                while await self._serve():
                    node.tell(Fault(at_ms=node.clock.now_ms(), who=node.name, kind="fenced"))
        except Exception as error:
            if not self.is_over:
                node.complain(f"a broker ended by itself: {node.name}, {in_words(error)}")
                self.crash(EndKind.KILL)
        if not self.is_over:
            node.tell(Fault(at_ms=node.clock.now_ms(), who=node.name, kind="stop"))
            self._die()
            node.disk.process_kill()

    async def wait_over(self) -> None:
        """Wait until the process is over."""
        await self._over.wait()

    def crash(self, kind: EndKind) -> None:
        """End the process now; nothing happens when it has ended already."""
        if self.is_over:
            return
        node, broker = self._node, self.broker
        if broker is not None and broker.role.is_master:
            node.last_log = log_of(node.disk, ROOT)
        self._die()
        if kind is EndKind.POWER:
            node.before_loss()
            node.disk.power_cut()
        else:
            node.disk.process_kill()
        node.tell(
            Crash(
                at_ms=node.clock.now_ms(),
                who=node.name,
                kind="power" if kind is EndKind.POWER else "kill",
            )
        )
        if broker is not None:
            broker.abort()
        self._scope.cancel()

    async def end(self, fault: ReplicaFault, kind: EndKind) -> None:
        """Bring the end that a plan asks for, and wait for it."""
        if kind is EndKind.STOP:
            if self.broker is not None:
                self.broker.request_stop()
            with trio.move_on_after(TRIGGER_SECONDS):
                await self._over.wait()
        with trio.move_on_after(TRIGGER_SECONDS):
            if fault.trigger is Trigger.AWAIT:
                await self._end_at_step(fault.count, kind)
            elif fault.trigger is Trigger.DISK:
                self._disk.crash_at(fault.count, fault.place, lambda: self.crash(kind))
                await self._over.wait()
        self.crash(kind)

    async def _end_at_step(self, count: int, kind: EndKind) -> None:
        counter = AwaitCounter(count, lambda: self.crash(kind))
        trio.lowlevel.add_instrument(counter)
        try:
            await self._over.wait()
        finally:
            trio.lowlevel.remove_instrument(counter)

    async def kill_after(self, count: int) -> None:
        """Kill it after so many steps of any task, unless they take too long."""
        with trio.move_on_after(TRIGGER_SECONDS):
            await self._end_at_step(count, EndKind.KILL)

    def _die(self) -> None:
        self.is_over = True
        self._over.set()
        self._disk.die()
        self._node.ports.main.cut_all()
        self._node.ports.ha.cut_all()

    async def _serve(self) -> bool:
        """One life of the broker; whether another one follows."""
        node = self._node
        before = log_of(node.disk, ROOT)
        options = await prepare_start(
            self._disk, ROOT, self._options, node.scenario.store, ReplicaCalls(node.open_stream)
        )
        self._check_kept(before)
        broker = self._open(options)
        async with trio.open_nursery() as serving:
            await serving.start(broker.run)
            self.broker = broker
            node.tell(Fault(at_ms=node.clock.now_ms(), who=node.name, kind="start"))
        self.broker = None
        if broker.next_life is None:
            return False
        broker.abandon()
        node.ports.main.cut_all()
        node.ports.ha.cut_all()
        return True

    def _wrote(self) -> None:
        if not self.is_over:
            self._node.on_put(self._node)

    def _check_kept(self, before: LogCopy) -> None:
        """What was cut off the log is kept, byte for byte."""
        node = self._node
        after = log_of(node.disk, ROOT)
        cut = before.behind(after.end)
        if not cut.data.strip(b"\0"):
            return
        node.lost.append(cut)
        records = DivergedRecords(node.disk, ROOT)
        kept = f"{records.directory}/{after.end:020d}-{before.end:020d}"
        data = b""
        for name in records.names():
            if name.startswith(f"{after.end:020d}-"):
                file = node.disk.open(f"{records.directory}/{name}", read_only=True)
                data = max(data, file.read(0, file.size()), key=len)
                file.close()
        if not data.startswith(cut.data):
            node.complain(f"what was cut off is not kept: {node.name}, expected {kept}")

    def _open(self, options: BrokerOptions) -> Broker:
        node, scenario = self._node, self._node.scenario
        host = pack_host(HOST, node.ports.port)
        timer_options = attrs.evolve(scenario.timer, timer_flush_interval_ms=SAVING_MS)
        clock = WatchedClock(node.clock, timer_options)
        store = WatchedStore.open(
            self._disk, ROOT, scenario.store, now_ms=clock.now_ms, store_host=host
        )
        store.on_get, store.on_put = partial(node.on_get, node), self._wrote
        timer_store = TimerMessageStore(store, timer_options, clock)
        clock.begin(timer_store.persisted_ms)
        listener, ha_listener = node.ports.main.listen(), node.ports.ha.listen()
        return Broker(
            endpoint=Endpoint(
                listeners=(listener,),
                sockets=listener.sockets,
                address=node.ports.address,
                listen=node.ports.address,
                namesrv_listen=None,
                store_host=host,
                ha_listener=ha_listener,
                ha_listen=f"{HOST}:{node.ports.ha_port}",
                ha_address=f"{HOST}:{node.ports.ha_port}",
            ),
            timer_store=timer_store,
            options=options,
            clock=clock,
            work_seconds=trio.current_time,
            open_stream=node.open_stream,
            steady_ms=node.steady_ms,
            draw=self._draw.random,
        )
