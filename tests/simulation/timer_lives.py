"""Lives of a timer store, told as data, and a heap of due times that foretells what they leave.

A plan is a list of lives. In each the store is opened, some steps are taken, and it ends in some
way; behind the last life everything that still waits is waited for.

| ending | what may be lost | what must survive |
|---|---|---|
| close, kill | nothing | every send and cancel, every delivery |
| power | what was not synced, torn in its sectors | what was acknowledged, what queues showed |

After every step the log holds on real topics exactly what the heap says is due, in the order of
(deliver time, order of sending).
"""

from __future__ import annotations

import enum
import heapq
from contextlib import AbstractAsyncContextManager
from random import Random

import attrs
import trio
import trio.testing

from fakes import START_MS, VirtualClock
from simulation.staged_service import running, timed
from small_store import read_bodies
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

STOP_TIMEOUT = 30.0
"""Seconds that a clean stop may take; as in the broker, the process is ended after them."""

TOPICS = ("A", "B")
"""A message goes to the one or the other by its number."""

TINY_WHEEL = TimerOptions(
    timer_roll_window_slot=3,
    slots_total=5,
    mapped_file_size_timer_log=52 * 4 + 16,
    timer_flush_interval_ms=2_000,
)
"""A ring of ten slots, rolls after three; a checkpoint is old enough to leave much to recovery."""

SMALL_WHEEL = attrs.evolve(
    TINY_WHEEL, timer_roll_window_slot=6, slots_total=10, slot_units_max=2, read_ahead_ms=300
)
"""Rolls after six of twenty slots; those of more than four messages are read in passes."""

CROWDED_WHEEL = attrs.evolve(
    SMALL_WHEEL, timer_roll_window_slot=9, slots_total=12, deliver_batch_count_max=1
)
"""More is always due than a batch takes: topics take turns, and after an outage three slots are
open at a time."""

OUTAGE_MAX_MS = 4_000
"""With it no ring laps: window, outage and age of the checkpoint have room in the smaller one."""


class Ending(enum.Enum):
    """How a life ends: a stop in order, a kill or a power cut."""

    CLOSE = "close"
    KILL = "kill"
    POWER = "power"


@attrs.frozen
class Send:
    """One put; each message this many milliseconds ahead, or back."""

    ahead_ms: tuple[int, ...]


@attrs.frozen
class SendBeside:
    """Send a message for the moment of one that waits."""

    pick: int


@attrs.frozen
class Cancel:
    """Cancel one of the pending messages."""

    pick: int


@attrs.frozen
class Sleep:
    """Let so many milliseconds pass."""

    ms: int


@attrs.frozen
class SleepUntil:
    """Let time pass up to the moment of one that waits, or beside it."""

    pick: int
    beside_ms: int


@attrs.frozen
class SetBack:
    """Set the wall clock back."""

    ms: int


Step = Send | SendBeside | Cancel | Sleep | SleepUntil | SetBack


@attrs.frozen(kw_only=True)
class Life:
    """What one process does, and how it ends."""

    steps: tuple[Step, ...]
    ending: Ending
    last_ms: int = 0
    """Time that passes before the end, without looking."""
    last_turns: int = 0
    """Turns that the other tasks get before the end: so it comes in the middle of their work."""
    torn: int | None = None
    """With POWER: what decides which unsynced sectors had reached the disk; None: none."""
    down_ms: int = 0
    """How far the wall clock goes before the next life begins."""


@attrs.frozen(kw_only=True)
class Plan:
    """Several lives of a store, with the settings of all."""

    lives: tuple[Life, ...]
    flush_disk_type: FlushDiskType = FlushDiskType.SYNC_FLUSH
    wheel: TimerOptions = TINY_WHEEL
    ring_laps: bool = False
    """An outage may be longer than the ring: what rolls in slots that are over is enqueued again at
    each roll, so that it, and what is due behind it, comes up to a second late; in order still."""
    by_topic: bool = False
    """Only messages of one topic are in order among themselves."""


@attrs.frozen
class Sent:
    """A message that the store has taken."""

    deliver_ms: int
    """The moment asked for, but not before it was sent."""
    end: int
    """End of its record in the log."""


class DueHeap:
    """The model: what was sent and cancelled, and a heap of what still waits.

    Numbers are given in the order of sending, so a heap of (deliver_ms, number) is in the order in
    which messages have to appear.
    """

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.cancelled: dict[int, int] = {}
        """Number to end of the delete's record in the log."""
        self.delivered: list[int] = []
        self._heap: list[tuple[int, int]] = []

    def send(self, number: int, sent: Sent) -> None:
        """Take a message that was acknowledged: it waits from now on."""
        self.sent[number] = sent
        heapq.heappush(self._heap, (sent.deliver_ms, number))

    def pass_to(self, now_ms: int) -> None:
        """Deliver what is due at a moment, unless it was cancelled."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, number = heapq.heappop(self._heap)
            if number not in self.cancelled:
                self.delivered.append(number)

    def waiting(self) -> list[int]:
        """Numbers that are still to come, in the order of sending."""
        return sorted(number for _, number in self._heap if number not in self.cancelled)

    def last_ms(self) -> int:
        """The last moment that anything waits for; 0 when nothing does."""
        return max((deliver_ms for deliver_ms, _ in self._heap), default=0)

    def resume(self, log_end: int, delivered: list[int]) -> None:
        """Go on from what a new process finds: everything behind the end of the log is undone."""
        self.sent = {n: sent for n, sent in self.sent.items() if sent.end <= log_end}
        self.cancelled = {n: end for n, end in self.cancelled.items() if end <= log_end}
        self.delivered = list(delivered)
        gone = set(delivered)
        self._heap = [(one.deliver_ms, n) for n, one in self.sent.items() if n not in gone]
        heapq.heapify(self._heap)


class Lives:
    """Carries out a plan; ``fault`` is the first thing that was not as the model says."""

    def __init__(self, plan: Plan) -> None:
        self.fault: str | None = None
        self._plan = plan
        self._clock = VirtualClock()
        self._disk = MemoryDisk(now_ms=self._clock.now_ms)
        self._model = DueHeap()
        self._count = 0
        self._found: list[int] = []
        """Numbers on real topics, in the order of the log."""
        self._scanned_to = 0
        self._durable_to = 0
        """What of the log has to survive the end of the life."""
        self._store_options = StoreOptions(
            mapped_file_size_commit_log=1024,
            mapped_file_size_consume_queue=100,
            max_hash_slot_num=16,
            max_index_num=64,
            file_reserved_time_hours=8760,
            flush_disk_type=plan.flush_disk_type,
        )

    async def run(self) -> None:
        """Live them all, then wait for everything that is still to come."""
        for life in self._plan.lives:
            await self._live(life)
        async with self._process(stop=True) as service:
            await self._begin(service.store)
            await trio.sleep(max(self._model.last_ms() - self._clock.now_ms(), 0) / 1000)
            await self._look(service.store)
            await service.store.flush()
            for topic in TOPICS:
                shown = [int(body) for body in read_bodies(service.store, topic)]
                self._expect(f"queue of {topic}", _of_topic(self._model.delivered, topic), shown)
            counts = service.statistics()
            faults = [counts.early, counts.missing, counts.set_aside]
            self._expect("early, missing, quarantined", [0, 0, 0], faults)

    async def _live(self, life: Life) -> None:
        with trio.CancelScope() as patience:
            async with self._process(stop=life.ending is Ending.CLOSE) as service:
                store = service.store
                await self._begin(store)
                for step in life.steps:
                    await self._take(step, service)
                    await self._look(store)
                await trio.sleep(life.last_ms / 1000)
                for _ in range(life.last_turns):
                    await trio.lowlevel.checkpoint()
                log = store.commit_log
                is_power = life.ending is Ending.POWER
                self._durable_to = log.flushed_where if is_power else log.max_offset
                patience.deadline = trio.current_time() + STOP_TIMEOUT
        self._model.pass_to(self._clock.now_ms())
        if life.ending is Ending.POWER:
            self._disk.power_cut(None if life.torn is None else Random(life.torn))
        elif life.ending is Ending.KILL or patience.cancelled_caught:
            self._disk.process_kill()
        self._clock.step(life.down_ms)

    def _process(self, *, stop: bool) -> AbstractAsyncContextManager[TimerMessageStore]:
        return running(
            self._disk,
            self._clock,
            store_options=self._store_options,
            timer_options=self._plan.wheel,
            stop=stop,
        )

    async def _begin(self, store: MessageStore) -> None:
        """Compare what a new process finds with what the last one left; take it as given then."""
        log_end = store.recovery.end
        if log_end < self._durable_to:
            self._tell(f"the log ends at {log_end}, {self._durable_to} was durable")
        before = self._model.delivered
        self._found, self._scanned_to = [], store.commit_log.min_offset
        self._scan(store, log_end)
        for expected, found in zip(self._ordered(before), self._ordered(self._found), strict=True):
            self._expect("delivered before", expected[: len(found)], found)
        self._model.resume(log_end, self._found)
        await self._look(store)

    async def _take(self, step: Step, service: TimerMessageStore) -> None:
        now_ms = self._clock.now_ms()
        match step:
            case Send(ahead_ms):
                await self._send(service, [now_ms + one for one in ahead_ms])
            case SendBeside(pick):
                for number in self._picked(pick):
                    await self._send(service, [self._model.sent[number].deliver_ms])
            case Cancel(pick):
                for number in self._picked(pick):
                    await self._cancel(service, number)
            case Sleep(ms):
                await trio.sleep(ms / 1000)
            case SleepUntil(pick, beside_ms):
                for number in self._picked(pick):
                    wait_ms = self._model.sent[number].deliver_ms + beside_ms - now_ms
                    await trio.sleep(max(wait_ms, 0) / 1000)
            case SetBack(ms):
                self._clock.step(-ms)

    def _picked(self, pick: int) -> list[int]:
        """One number that waits, if there is any."""
        waiting = self._model.waiting()
        return [waiting[pick % len(waiting)]] if waiting else []

    async def _send(self, service: TimerMessageStore, moments: list[int]) -> None:
        numbers = range(self._count, self._count + len(moments))
        self._count += len(moments)
        results = service.put(
            [
                timed(str(number), deliver_ms, topic=_topic_of(number))
                for number, deliver_ms in zip(numbers, moments, strict=True)
            ]
        )
        for number, deliver_ms, one in zip(numbers, moments, results, strict=True):
            assert one.result.status is PutStatus.PUT_OK, one.result.remark
            # What is past already is due now, behind what came before.
            due_ms = max(deliver_ms, self._clock.now_ms())
            self._model.send(number, Sent(due_ms, one.result.end))
        if self._store_options.is_sync_flush:
            assert await service.store.wait_flushed(results[-1].result.end)

    async def _cancel(self, service: TimerMessageStore, number: int) -> None:
        result = service.cancellation.cancel(Wanted(_topic_of(number), str(number)))
        if result.verdict is not Verdict.CANCELLED:
            self._tell(f"{number} waits, its cancel was {result.verdict.value}")
        if self._store_options.is_sync_flush:
            assert await service.store.wait_flushed(result.end)
        self._model.cancelled[number] = result.end

    async def _look(self, store: MessageStore) -> None:
        """Let the service do what is to be done now, and compare the log with the model."""
        # Whose sleep ends in this very moment, but for the rounding of seconds, is awake then.
        await trio.sleep(1e-6)
        await self._settle(store)
        if len(self._found) < len(self._model.delivered) and self._plan.ring_laps:
            await trio.sleep(1)
            await self._settle(store)
        self._expect("delivered", self._model.delivered, self._found)

    async def _settle(self, store: MessageStore) -> None:
        await trio.testing.wait_all_tasks_blocked()
        self._model.pass_to(self._clock.now_ms())
        self._scan(store, store.commit_log.max_offset)

    def _scan(self, store: MessageStore, log_end: int) -> None:
        """Read what came to real topics since the last time."""
        log = store.commit_log
        for phy_offset, size in log.scan(self._scanned_to, check_crc=True):
            if phy_offset >= log_end:
                return
            self._scanned_to = phy_offset + size
            record = decode_record(log.read(phy_offset, size))
            if record.topic not in TOPICS:
                continue
            number = int(record.body)
            self._found.append(number)
            sent = self._model.sent.get(number)
            if sent is not None and record.store_ms < sent.deliver_ms:
                self._tell(f"{number} came at {record.store_ms}, due at {sent.deliver_ms}")

    def _expect(self, what: str, expected: list[int], found: list[int]) -> None:
        if self._ordered(expected) != self._ordered(found):
            self._tell(f"{what}: expected {expected}, found {found}")

    def _ordered(self, numbers: list[int]) -> list[list[int]]:
        """What has to be equal, and in the same order."""
        if self._plan.by_topic:
            return [_of_topic(numbers, topic) for topic in TOPICS]
        return [numbers]

    def _tell(self, fault: str) -> None:
        if self.fault is None:
            self.fault = f"at {self._clock.now_ms() - START_MS} ms: {fault}"


def _topic_of(number: int) -> str:
    return TOPICS[number % len(TOPICS)]


def _of_topic(numbers: list[int], topic: str) -> list[int]:
    return [number for number in numbers if _topic_of(number) == topic]


def fault_in(plan: Plan) -> str | None:
    """Carry out a plan in virtual time; the first thing that was not as it should be."""
    lives = trio.run(_lived, plan, clock=trio.testing.MockClock(autojump_threshold=0))
    return lives.fault


async def _lived(plan: Plan) -> Lives:
    lives = Lives(plan)
    await lives.run()
    return lives
