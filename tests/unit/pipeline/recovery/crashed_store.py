"""A timer store as a killed process leaves it, what may be damaged in it, and what must be found.

The first life is the real service in virtual time; the damage is done to its files on the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import numpy as np
import trio

from fakes import START_MS, ManualClock, VirtualClock
from rocksdb_tables import put_database
from simulation.staged_service import HOST, ROOT, SMALL_FILES, arrivals, delete_of, running, timed
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.quarantine.quarantine import Quarantine
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.recovery.timer_recovery import Recovered, recover
from timermq.pipeline.stages.enqueue_get import EnqueueGet
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.state.timer_state import TimerState
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DELETE, UNIT, TimerLog
from timermq.timerlog.timer_checkpoint import EXTENSION, EXTENSION_AT
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_layout import MAGIC_AT, MAGIC_V1
from timermq.wheel.slot import SLOT_DTYPE, Slots

WHEEL = f"{ROOT}/timerwheel"
TIMER_LOG = f"{ROOT}/timerlog"
CHECKPOINT = f"{ROOT}/config/timercheck"

SEGMENT_SIZE = 4 * UNIT.size + 42
"""Bytes of a timer-log segment: four units, a blank and zeros."""
KEPT_SIZE = 7 * SEGMENT_SIZE + UNIT.size
"""Bytes that are left of a timer log that has lost durable units: 29 of them."""

OPTIONS = TimerOptions(
    timer_roll_window_slot=20,
    slots_total=120,
    mapped_file_size_timer_log=SEGMENT_SIZE,
    timer_flush_interval_ms=2000,
)

CANCELLED = ("gone", "dead")
"""The first was due before the kill, the second would be due after it."""


@attrs.frozen
class Crashed:
    """What the killed process left."""

    disk: MemoryDisk
    clock: VirtualClock
    waiting: tuple[str, ...]
    """Bodies of the messages that still have to arrive."""
    arrived: tuple[str, ...]
    """Bodies of those that have, some of them after the last checkpoint."""


async def crashed() -> Crashed:
    """Five seconds of service: delivered, rolled, cancelled and waiting ones, then a kill.

    The last checkpoint is a second old: after it five messages arrived and four were enqueued.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    moments = {f"m{n}": START_MS + 300 + 370 * n for n in range(36)}
    moments |= {f"far{n}": START_MS + 50_000 + 10_000 * n for n in range(3)}
    last = {f"last{n}": START_MS + 9_000 + 2_500 * n for n in range(4)}
    async with running(disk, clock, timer_options=OPTIONS, stop=False) as service:
        service.put([timed(body, deliver_ms) for body, deliver_ms in moments.items()])
        for body, deliver_ms in zip(CANCELLED, (START_MS + 2_500, START_MS + 12_500), strict=True):
            service.put([timed(body, deliver_ms), delete_of(body, deliver_ms)])
        await trio.sleep(5.2)
        service.put([timed(body, deliver_ms) for body, deliver_ms in last.items()])
        await trio.sleep(0.01)
        arrived = tuple(one.body for one in arrivals(service.store))
    disk.process_kill()
    waiting = tuple(body for body in moments | last if body not in arrived)
    return Crashed(disk, clock, waiting, arrived)


# -- damage ---------------------------------------------------------------------------------------


def leave(disk: MemoryDisk) -> None:
    """Damage nothing: the store is as the kill has left it."""


def make_checkpoint_javas(disk: MemoryDisk) -> None:
    """Only the seven numbers are left, as when RocketMQ has served the store."""
    disk.open(CHECKPOINT).write(EXTENSION_AT, bytes(EXTENSION.size))


def turn_timeline_on(disk: MemoryDisk) -> None:
    """RocketMQ has served the store, and its RocksDB timers were on."""
    make_checkpoint_javas(disk)
    put_database(disk, f"{ROOT}/rocksdbstore", b"timer")


def forget_read_time(disk: MemoryDisk) -> None:
    """The checkpoint says how far the log was synced, but not what was read."""
    make_checkpoint_javas(disk)
    disk.open(CHECKPOINT).write(0, bytes(8))


def lose_units(disk: MemoryDisk) -> None:
    """Units that were durable are gone, and the wheel's file does not speak of them."""
    for name in disk.list_dir(TIMER_LOG):
        left = max(KEPT_SIZE - int(name), 0)
        if not left:
            disk.remove(f"{TIMER_LOG}/{name}")
        elif left < SEGMENT_SIZE:
            disk.open(f"{TIMER_LOG}/{name}").write(left, bytes(SEGMENT_SIZE - left))

    def forget(slots: Slots) -> Slots:
        slots[slots["last_pos"] >= KEPT_SIZE] = np.zeros((), SLOT_DTYPE)
        return slots

    change_slots(disk, forget)


def lose_last_messages(disk: MemoryDisk) -> int:
    """The four newest messages are gone from the commit log, their units are not.

    Returns:
        Where the log ends now.
    """
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    data = file.read(0, file.size())
    magic = MAGIC_V1.to_bytes(4, "big", signed=True)
    start = data.rindex(magic, 0, data.index(b"last0")) - MAGIC_AT
    file.write(start, bytes(len(data) - start))
    disk.power_cuts += 1
    return start


def lose_wheel(disk: MemoryDisk) -> None:
    """The wheel's file is gone."""
    disk.remove(WHEEL)


def units_from(disk: MemoryDisk, phy_offset: int) -> int:
    """How many units of the timer log name what stands from a position of the commit log on."""
    timer_log = TimerLog.open(disk, TIMER_LOG, SEGMENT_SIZE, read_only=True)
    named = [int((units["offset_py"] >= phy_offset).sum()) for _, units in timer_log.scan(0)]
    timer_log.close()
    return sum(named)


def change_slots(disk: MemoryDisk, change: Callable[[Slots], Slots]) -> None:
    """Replace the wheel's slots by what ``change`` makes of them."""
    file = disk.open(WHEEL)
    slots = np.frombuffer(file.read(0, file.size()), SLOT_DTYPE)
    file.write(0, change(slots.copy()).tobytes())


def set_in_newest_slot(disk: MemoryDisk, column: str, value: int) -> None:
    """Write a number into the slot that is due last."""

    def change(slots: Slots) -> Slots:
        slots[column][slots["time"].argmax()] = value
        return slots

    change_slots(disk, change)


# -- the next life --------------------------------------------------------------------------------


@attrs.frozen
class Reopened:
    """The store after recovery, before any stage runs."""

    store: MessageStore
    files: TimerFiles
    options: TimerOptions
    recovered: Recovered
    now_ms: int

    def enqueue(self, batch_count: int = 1 << 20, from_offset: int | None = None) -> int:
        """Let the first two stages do what is left, or so many batches; returns the offset then."""
        found = self.recovered
        offset = found.queue_offset if from_offset is None else from_offset
        state = TimerState(
            queue_offset=offset,
            commit_queue_offset=offset,
            write_ms=self.now_ms // 1000 * 1000,
            read_ms=found.read_ms,
            commit_read_ms=found.read_ms,
            scan_py=found.scan_py,
            near_ms=0,
            already_done=found.already_done,
        )
        counts = TimerCounts()
        get = EnqueueGet(
            store=self.store, state=state, options=self.options, clock=ManualClock(), counts=counts
        )
        put = EnqueuePut(
            timer_log=self.files.timer_log,
            wheel=self.files.wheel,
            metrics=self.files.metrics,
            quarantine=Quarantine(
                self.store, counts, self.files.metrics, OPTIONS.timer_precision_ms
            ),
            flow=FlowControl(OPTIONS, lambda _: 0),
            state=state,
            options=self.options,
            clock=ManualClock(self.now_ms),
            counts=counts,
        )
        while batch_count and (batch := get.next_batch()) is not None:
            assert put.put(batch)
            batch_count -= 1
        return state.commit_queue_offset

    async def write_checkpoint(self, queue_offset: int) -> None:
        """What the service writes at its interval, with nothing read since the start."""
        await self.files.timer_log.flush()
        self.files.wheel.write_dirty(self.files.wheel.snapshot_dirty())
        self.files.checkpoint.update(
            last_read_time_ms=self.recovered.read_ms,
            last_timer_log_flush_pos=self.files.timer_log.max_pos,
            last_timer_queue_offset=queue_offset,
            scan_py=self.recovered.scan_py,
            precision_ms=self.options.timer_precision_ms,
            now_ms=self.now_ms,
        )
        self.files.checkpoint.write()

    def in_slots(self) -> Counter[str]:
        """Bodies of the messages that the chains of the unread slots lead to, deletes left out.

        Each slot must count what its chain holds.
        """
        found = self.recovered
        bodies: Counter[str] = Counter()
        columns = ["time_ms", "last_pos", "num"]
        for slot_ms, last_pos, num in self.files.wheel.live(found.read_ms)[columns].tolist():
            units = 0
            for chunk in self.files.timer_log.walk(last_pos, slot_ms=slot_ms):
                deletes = (chunk.magic & MAGIC_DELETE) != 0
                units += int(np.where(deletes, -1, 1).sum())
                fresh = ~found.already_done.dequeue_repeats(chunk.offset_py) & ~deletes
                for offset_py, size_py in zip(
                    chunk.offset_py[fresh].tolist(), chunk.size_py[fresh].tolist(), strict=True
                ):
                    record = decode_record(self.store.commit_log.read(offset_py, size_py))
                    bodies[record.body.decode()] += 1
            assert units == num
        return bodies


def reopen(crash: Crashed, options: TimerOptions = OPTIONS) -> Reopened:
    """Open the store and recover."""
    now_ms = crash.clock.now_ms()
    store = MessageStore.open(
        crash.disk, ROOT, SMALL_FILES, now_ms=crash.clock.now_ms, store_host=HOST
    )
    files = TimerFiles.open(crash.disk, ROOT, options)
    return Reopened(store, files, options, recover(files, store, options, now_ms), now_ms)


async def delivered_in_the_end(crash: Crashed, options: TimerOptions = OPTIONS) -> Counter[str]:
    """Bodies that are on the topic when the service has run until nothing can be left."""
    async with running(crash.disk, crash.clock, timer_options=options) as service:
        await trio.sleep(200)
        return Counter(one.body for one in arrivals(service.store))
