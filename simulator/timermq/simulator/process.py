"""One life of a broker: the real one, over the staged disk, clock and network.

It ends as its plan says: in order, or in the middle of anything. The end of a process is one
instant: its disk takes nothing more, its connections break, its tasks are cancelled; what they do
while they unwind has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
import trio

from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions, TransactionDelay
from timermq.client.history import Crash, Event, Fault
from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.causes import causes
from timermq.repair.backup import NoRoomError
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import StoreRepair
from timermq.timerstore.disk import is_full
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore

from .causes_in_words import in_words
from .damage_at_rest import DamageAtRest
from .disks.fault_plan import FaultRules, Operation
from .disks.faulty_disk import FaultyDisk
from .disks.memory_disk import MemoryDisk
from .process_disk import ProcessDisk
from .recovery_rows import STORE, store_row
from .removed_segments import RemovedSegments
from .repair_cost import ROLLS_IN_ALL_MAX, rolls_behind
from .scenario import SAVING_MS, EndKind, Life, Rot, Scenario, Settings, Trigger
from .staged.staged_clock import StagedClock
from .staged.staged_network import StagedNetwork

ROOT = "/store"
ADDRESS = "127.0.0.1:10911"
WHO = "broker"
CHECK_MS = 600_000
"""Between two checks of open transactions."""
DISK_SIZE = 1 << 50
"""Bytes of the disk, unless it is full for a while."""

Offsets = list[tuple[str, str, dict[int, int]]]
"""Group, topic, and offset by queue."""

TRIGGER_SECONDS = 60.0
"""After them an end comes, whether its await or disk change has been or not."""


class AwaitCounter(trio.abc.Instrument):
    """Calls back at the so many-th step of any task.

    Args:
        count: 1: the next one.
        end: Called once, between two steps.
    """

    def __init__(self, count: int, end: Callable[[], None]) -> None:
        self._left = count
        self._end = end

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to go on."""
        del task
        self._left -= 1
        if self._left == 0:
            self._end()


@attrs.frozen(kw_only=True)
class Surroundings:
    """The things that one process leaves to the next, and its observers."""

    scenario: Scenario
    clock: StagedClock
    disk: MemoryDisk
    disk_faults: FaultRules | None
    """The rules of the disk's faults; None: it has none."""
    network: StagedNetwork
    tell: Callable[[Event], None]
    """Takes events for the history."""
    complain: Callable[[str], None]
    """Takes what must not happen."""
    removed: RemovedSegments
    """Takes what cleaning takes away."""
    damage: DamageAtRest
    """The damage that the disk has done to the files."""


class Process:
    """One process; ``live`` is its life.

    Args:
        surroundings: What outlives it.
        expected_offsets: ``saved_offsets`` of the process before it.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        expected_offsets: Offsets | None = None,
        waiting_count: int = 0,
    ) -> None:
        self.waiting_count = waiting_count
        """Pending messages, as the last broker knew."""
        self.broker: Broker | None = None
        """While it is there."""
        self.saved_offsets: Offsets | None = None
        """How far groups had come when it ended in order, with room on the disk to say so."""
        self._expected_offsets = expected_offsets
        self.is_over = False
        self.crashes = 0
        self.has_begun = False
        """Whether it has come to take requests."""
        self._around = surroundings
        disk, faults = surroundings.disk, surroundings.disk_faults
        self._disk = ProcessDisk(
            disk if faults is None else FaultyDisk(disk, ROOT, faults),
            surroundings.removed.before_removal,
            reserves_blocks=disk.reserves_blocks,
        )
        disk.on_reserving = self._disk.reserving
        self._faults_before = 0 if faults is None else len(faults.struck)
        self._scope = trio.CancelScope()
        self._ready = trio.Event()
        self._over = trio.Event()

    async def live(self, life: Life | None) -> None:
        """Start the broker and run it to its end.

        Args:
            life: How it ends; None: when ``request_stop`` is called.
        """
        around = self._around
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    if life is not None:
                        nursery.start_soon(self._end, life)
                        await trio.lowlevel.checkpoint()
                    settings = around.scenario.settings_of(life)
                    if life is not None and life.is_repaired:
                        await self._repair(settings)
                    around.damage.begin_start()
                    self.broker = self._open(settings, life)
                    self._check_offsets(self.broker)
                    async with trio.open_nursery() as serving:
                        await serving.start(self.broker.run)
                        self.has_begun = True
                        around.damage.end_start()
                        nursery.start_soon(self._clean, self.broker)
                        around.tell(Fault(at_ms=around.clock.now_ms(), who=WHO, kind="start"))
                        self._ready.set()
                    nursery.cancel_scope.cancel()
        except Exception as error:
            if not self.is_over:
                if not self._may_end_by(error):
                    around.complain(f"the broker ended by itself: {in_words(error)}")
                self.crash(EndKind.KILL)
        if not self.is_over:
            self._check_counts()
            if self.broker is not None and around.disk.total == DISK_SIZE:
                self.saved_offsets = _offsets(self.broker)
            around.tell(Fault(at_ms=around.clock.now_ms(), who=WHO, kind="stop"))
            self._die()
            around.disk.process_kill()
        self.broker = None
        self._ready.set()

    @property
    def has_met_fault(self) -> bool:
        """Whether the disk has failed while this process lived."""
        faults = self._around.disk_faults
        return faults is not None and len(faults.struck) > self._faults_before

    @property
    def _may_have_lost(self) -> bool:
        """Whether what was written may not have come to the disk: a failed read takes nothing."""
        faults = self._around.disk_faults
        struck = [] if faults is None else faults.struck[self._faults_before :]
        return any(one.operation is not Operation.READ for one in struck)

    def _may_end_by(self, error: Exception) -> bool:
        """Whether a broker rightly ends: its disk has failed, or has no room for its start."""
        errors = list(causes(error))
        damage = self._around.damage
        if self.broker is None and any(map(damage.is_refused, errors)):
            for fault in damage.end_refused():
                self._around.complain(fault)
            return True
        if self.has_met_fault:
            return all(isinstance(one, OSError | StoreFailedError) for one in errors)
        return self.broker is None and all(
            isinstance(one, OSError) and is_full(one) for one in errors
        )

    async def wait_ready(self) -> None:
        """Wait until requests are taken, or the process is over."""
        await self._ready.wait()

    async def wait_over(self) -> None:
        """Wait until the process is over."""
        await self._over.wait()

    def crash(self, kind: EndKind, torn: int = 0) -> None:
        """End the process now; nothing happens when it has ended already."""
        if self.is_over:
            return
        around = self._around
        self.crashes += 1
        self._check_counts()
        self._die()
        if kind is EndKind.KILL:
            around.disk.process_kill()
        else:
            around.disk.power_cut(Random(torn) if kind is EndKind.TORN else None)  # noqa: S311
        around.tell(
            Crash(
                at_ms=around.clock.now_ms(),
                who=WHO,
                # What a failed sync held may be gone with the next power cut.
                kind="kill" if kind is EndKind.KILL and not self._may_have_lost else "power",
            )
        )
        if self.broker is not None:
            self.broker.abort()
        self._scope.cancel()

    def _die(self) -> None:
        if self.broker is not None:
            self.waiting_count = self.broker.timer_store.statistics().pending
        self.is_over = True
        self._over.set()
        self._disk.die()
        self._around.network.cut_all()

    def put(self, message: Message) -> bool:
        """Write a record behind the back of admission; whether the log has taken it."""
        if self.broker is None or self.is_over or not self.has_begun:
            return False
        try:
            (result,) = self.broker.store.put([message])
        except (OSError, StoreFailedError):
            return False
        return result.status.is_stored and not self.is_over

    async def rot(self, rot: Rot) -> None:
        """Damage files behind so many changes, or after a minute."""
        damage = self._around.damage
        assert self.broker is not None
        end = self.broker.store.recovery.end
        self._disk.rot_at(rot.skip + 1, lambda: damage.do(rot.damage, written_from=end))
        await trio.sleep(TRIGGER_SECONDS)
        self._disk.rot_now()

    async def _end(self, life: Life) -> None:
        """Wait for the end's time and cause, and bring it."""
        await trio.sleep_until(life.end_ms / 1000)

        def end() -> None:
            self.crash(life.kind, life.torn)

        if life.kind is EndKind.STOP:
            await self._ready.wait()
            assert self.broker is not None
            self.broker.request_stop()
            return
        if life.trigger is Trigger.AWAIT:
            counter = AwaitCounter(life.count, end)
            trio.lowlevel.add_instrument(counter)
            try:
                await trio.sleep(TRIGGER_SECONDS)
            finally:
                trio.lowlevel.remove_instrument(counter)
        elif life.trigger is Trigger.DISK:
            self._disk.crash_at(life.count, life.place, end)
            await trio.sleep(TRIGGER_SECONDS)
        end()

    async def _clean(self, broker: Broker) -> None:
        """Clean at the moments of the plan that are still to come."""
        for at_ms in self._around.scenario.cleanings_ms:
            if at_ms / 1000 >= trio.current_time():
                await trio.sleep_until(at_ms / 1000)
                await broker.timer_store.store.clean()

    async def _repair(self, settings: Settings) -> None:
        """Repair the store, as an operator does who is not sure; a full disk lets it be."""
        around = self._around
        if not self._disk.exists(ROOT):
            return
        store = CheckedStore(
            disk=self._disk,
            root=ROOT,
            store_options=settings.store,
            timer_options=settings.timer,
            now_ms=around.clock.now_ms(),
        )
        if rolls_behind(store, self.waiting_count) > ROLLS_IN_ALL_MAX:
            around.removed.counts["repairs left out: too many rolls"] += 1
            return
        around.tell(Fault(at_ms=around.clock.now_ms(), who=WHO, kind="repair"))
        try:
            report = await StoreRepair(store, around.clock.now_ms).run()
        except NoRoomError:
            return
        around.removed.counts["stores repaired"] += 1
        around.damage.is_told = True
        if not report.is_repaired:
            around.complain(f"a repair leaves {report.left[0]}")

    def _open(self, settings: Settings, life: Life | None) -> Broker:
        around = self._around
        host = pack_host("127.0.0.1", 10_911)
        saving_ms = SAVING_MS if life is None else life.saving_ms
        timer_options = attrs.evolve(settings.timer, timer_flush_interval_ms=saving_ms)
        clock = WatchedClock(around.clock, timer_options)
        row = store_row(around.disk, ROOT)
        store = MessageStore.open(
            self._disk, ROOT, settings.store, now_ms=clock.now_ms, store_host=host
        )
        around.removed.counts[f"{STORE}: {row}"] += 1
        timer_store = TimerMessageStore(store, timer_options, clock)
        listener = around.network.listen()
        network = around.scenario.network
        return Broker(
            endpoint=Endpoint(
                listeners=(listener,),
                sockets=listener.sockets,
                address=ADDRESS,
                listen=ADDRESS,
                namesrv_listen=None,
                store_host=host,
            ),
            timer_store=timer_store,
            options=BrokerOptions(
                flush_consumer_offset_interval_ms=saving_ms,
                transaction_check_interval_ms=CHECK_MS,
                transaction_delay=TransactionDelay.AT_COMMIT
                if around.scenario.delays_commits
                else TransactionDelay.REFUSE,
                receive_size=network.receive_size,
                unread_output_size_max=network.unread_output_size_max,
            ),
            clock=clock,
            work_seconds=trio.current_time,
        )

    def _check_offsets(self, broker: Broker) -> None:
        """What a process has saved as it stopped, the next one knows."""
        found = _offsets(broker)
        is_older = FileFamily.CONFIG in self._around.damage.families
        if self._expected_offsets not in (None, found) and not is_older:
            self._around.complain(
                f"committed offsets changed: expected {self._expected_offsets}, found {found}"
            )

    def _check_counts(self) -> None:
        """What the broker itself has noticed and must never notice."""
        if self.broker is None:
            return
        service, total = self.broker.timer_store, self._around.removed.counts
        counts = service.counts
        damage = self._around.damage
        expected = {"early": 0, "missing": len(damage.positions)}
        if FileFamily.COMMIT_LOG not in damage.families:
            # Else the last look tells what may be there.
            expected["set_aside"] = self._around.scenario.poisons
        for name, count_max in expected.items():
            if getattr(counts, name) > count_max:
                self._around.complain(f"the broker counts {getattr(counts, name)} {name}")
        for name in ("enqueued", "rolled", "delivered", "cancelled", "repeated", "retried"):
            total[f"timers: {name}"] += getattr(counts, name)
        for rule, count in service.admission.counts.refused.items():
            total[f"admission refuses: {rule}"] += count


def _offsets(broker: Broker) -> Offsets:
    return sorted(
        (group, topic, queues) for group, topic, queues in broker.tables.offsets.all() if queues
    )
