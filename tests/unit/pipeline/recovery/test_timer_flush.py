"""The checkpoint comes last, shows what was true when it was taken, and survives failing syncs."""

from __future__ import annotations

import errno
from collections import Counter

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES, arrivals, running, timed
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery.timer_flush import TimerFlush
from timermq.pipeline.stages.enqueue_get import EnqueueGet
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.state.timer_counts import TimerCounts
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT, TimerCheckpoint, TimerLog
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.wheel.slot import SLOT_DTYPE
from unit.pipeline.recovery.crashed_store import CHECKPOINT, TIMER_LOG, WHEEL
from unit.pipeline.recovery.crashed_store import OPTIONS as SMALL_SEGMENTS

SEGMENT_SIZE = 40 * UNIT.size + 16
OPTIONS = attrs.evolve(SMALL_SEGMENTS, mapped_file_size_timer_log=SEGMENT_SIZE)
"""A timer log of one segment."""

STEPS = 26
"""More checkpoints of trio's than a flush takes."""


class Rig:
    """A service whose first two stages and checkpoints are run by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        self.synced: list[str] = []
        self.store = MessageStore.open(
            self.disk, ROOT, SMALL_FILES, now_ms=self.clock.now_ms, store_host=HOST
        )
        self.service = TimerMessageStore(self.store, OPTIONS, self.clock)
        self.state = self.service.state
        self.flush = TimerFlush(
            files=self.service.files,
            store=self.store,
            state=self.state,
            options=OPTIONS,
            clock=self.clock,
        )
        self.count = 0
        self.disk.fail_syncs_of = self._note

    def put(self, count: int) -> None:
        """Store so many timers, and let them be enqueued."""
        service, files = self.service, self.service.files
        moments = [START_MS + 5_000 + 700 * (self.count + n) for n in range(count)]
        service.put([timed(f"m{moment}", moment) for moment in moments])
        self.count += count
        counts = TimerCounts()
        get = EnqueueGet(
            store=self.store, state=self.state, options=OPTIONS, clock=self.clock, counts=counts
        )
        put = EnqueuePut(
            timer_log=files.timer_log,
            wheel=files.wheel,
            metrics=files.metrics,
            quarantine=service.quarantine,
            flow=FlowControl(OPTIONS, lambda _: 0),
            state=self.state,
            options=OPTIONS,
            clock=self.clock,
            counts=counts,
        )
        while (batch := get.next_batch()) is not None:
            assert put.put(batch)

    def read_to(self, read_ms: int) -> None:
        """Let all slots before a time be delivered."""
        self.state.read_ms = self.state.commit_read_ms = read_ms
        self.state.scan_py = self.store.commit_log.max_offset
        self.service.files.wheel.pass_by(read_ms)

    def saved(self) -> TimerCheckpoint:
        """The checkpoint as the file shows it."""
        return TimerCheckpoint.decode(self.disk.open(CHECKPOINT).read(0, 4096).ljust(4096, b"\0"))

    def check_nothing_is_ahead(self) -> None:
        """What is durable: no file points at what another one has not."""
        saved = self.saved()
        log = TimerLog.open(self.disk, TIMER_LOG, SEGMENT_SIZE, read_only=True)
        end = log.recover(0)
        store = MessageStore.open(
            self.disk, ROOT, SMALL_FILES, now_ms=self.clock.now_ms, store_host=HOST
        )
        queue, log_end = store.queue(TIMER_TOPIC, 0), store.commit_log.max_offset
        bodies = [int(one) for _, units in log.scan(0) for one in units["offset_py"]]

        assert saved.last_timer_log_flush_pos <= end
        assert saved.last_timer_queue_offset <= (0 if queue is None else queue.max_offset)
        assert saved.last_timer_queue_offset <= len(bodies)
        assert max(bodies[: saved.last_timer_queue_offset], default=-1) < log_end
        if saved.extension is not None:
            assert saved.extension.scan_py <= log_end
        if self.disk.exists(WHEEL):
            file = self.disk.open(WHEEL)
            slots = np.frombuffer(file.read(0, file.size()), SLOT_DTYPE)
            assert int(slots["last_pos"].max()) < max(end, 1)

    def _note(self, path: str) -> bool:
        self.synced.append(path)
        return False


def kind(path: str) -> str:
    """Which of the service's files a path is."""
    name = path.removeprefix(f"{ROOT}/").removeprefix("config/")
    return name.split("/")[0].removesuffix(".tmp")


async def test_order() -> None:
    """Bodies, units, slots, checkpoint: each is durable before what points at it is written."""
    rig = Rig()
    rig.put(3)
    rig.synced.clear()
    await rig.flush.flush()
    order = list(dict.fromkeys(kind(path) for path in rig.synced))

    bodies = ("commitlog", "timermq-seals", "consumequeue", "checkpoint")
    assert (*bodies, "timerlog", "timerwheel", "timercheck") == tuple(order[:7])


async def test_what_is_written() -> None:
    """The checkpoint holds the positions of the state, and the end of the timer log."""
    rig = Rig()
    rig.put(5)
    rig.read_to(START_MS + 2_000)
    await rig.flush.flush()
    saved = rig.saved()

    assert START_MS + 2_000 == saved.last_read_time_ms
    assert rig.service.files.timer_log.max_pos == saved.last_timer_log_flush_pos
    assert (5, 5) == (saved.last_timer_queue_offset, saved.master_timer_queue_offset)
    assert saved.extension is not None
    assert (rig.state.scan_py, 1000) == (saved.extension.scan_py, saved.extension.precision_ms)


async def test_nothing_new_is_not_written() -> None:
    """Without a change no file is synced; each of the three positions is one."""
    rig = Rig()
    rig.put(2)
    await rig.flush.flush()
    rig.synced.clear()
    await rig.flush.flush()

    assert [] == rig.synced

    rig.read_to(START_MS + 1_000)
    await rig.flush.flush()

    assert START_MS + 1_000 == rig.saved().last_read_time_ms

    rig.put(1)
    await rig.flush.flush()

    assert 3 == rig.saved().last_timer_queue_offset


@pytest.mark.parametrize("step", range(STEPS))
async def test_power_cut_at_any_step(step: int) -> None:
    """Wherever the power goes while a checkpoint is written, nothing durable points ahead."""
    rig = Rig()
    rig.put(4)
    await rig.flush.flush()
    rig.put(6)
    rig.read_to(START_MS + 3_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.flush.flush)
        for _ in range(step):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    rig.disk.power_cut()
    rig.check_nothing_is_ahead()

    assert rig.saved().last_timer_queue_offset in (4, 10)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("step", range(2, STEPS))
async def test_values_are_those_from_the_beginning(step: int, is_first: bool) -> None:
    """What is enqueued and delivered while the files are synced belongs to the next checkpoint."""
    rig = Rig()
    rig.put(1)
    if not is_first:
        await rig.flush.flush()
    rig.put(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.flush.flush)
        for _ in range(step):
            await trio.lowlevel.checkpoint()
        rig.put(6)
        rig.read_to(START_MS + 3_000)
    rig.disk.power_cut()
    rig.check_nothing_is_ahead()
    saved = rig.saved()

    assert (START_MS, 4) == (saved.last_read_time_ms, saved.last_timer_queue_offset)


@pytest.mark.parametrize("path", ["commitlog", "timerlog", "timerwheel", "timercheck"])
async def test_a_failed_sync_is_not_tried_again(path: str) -> None:
    """The flush fails, and so does every later one; the durable checkpoint is the old one."""
    rig = Rig()
    rig.put(4)
    await rig.flush.flush()
    rig.put(6)
    rig.disk.fail_syncs_of = lambda one: path in one
    with pytest.raises(Exception, match="sync failed"):
        await rig.flush.flush()
    rig.disk.fail_syncs_of = lambda _: False
    with pytest.raises(Exception, match="sync failed"):
        await rig.flush.flush()
    rig.disk.power_cut()
    rig.check_nothing_is_ahead()

    assert 4 == rig.saved().last_timer_queue_offset


async def serve_until_failure(
    disk: MemoryDisk, clock: VirtualClock, path: str, begins_after: float
) -> None:
    """Serve, and let the syncs of a file fail from some moment on."""
    async with running(disk, clock, timer_options=OPTIONS) as service:
        await trio.sleep(begins_after)
        disk.fail_syncs_of = lambda one: path in one
        service.put([timed("late", clock.now_ms() + 4_000)])
        await trio.sleep(60)


@pytest.mark.parametrize(
    "path", ["commitlog", "consumequeue", "timerlog", "timerwheel", "timercheck"]
)
@pytest.mark.parametrize("begins_after", [0.0, 3.5])
async def test_the_service_fails_and_goes_on_from_the_logs(
    autojump_clock: MockClock, path: str, begins_after: float
) -> None:
    """A sync that fails ends the service; after the power cut each synced message comes once."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    expected = [f"m{n}" for n in range(20)]
    async with running(disk, clock, timer_options=OPTIONS, stop=False) as service:
        service.put([timed(body, START_MS + 1_500 + 400 * n) for n, body in enumerate(expected)])
        await service.store.flush()
    disk.process_kill()
    with pytest.raises(ExceptionGroup) as caught:
        await serve_until_failure(disk, clock, path, begins_after)
    disk.fail_syncs_of = lambda _: False
    disk.power_cut()
    async with running(disk, clock, timer_options=OPTIONS) as service:
        await trio.sleep(60)
        found = Counter(one.body for one in arrivals(service.store))

    assert caught.value.split(lambda one: "sync failed" in str(one))[1] is None
    assert found.pop("late", 0) in (0, 1)
    assert Counter(expected) == found


async def test_an_idle_reader_keeps_moving(autojump_clock: MockClock) -> None:
    """While other messages make the log grow, the read time follows: the tail to scan is short."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, timer_options=attrs.evolve(OPTIONS, clock_check_interval_ms=10**9)
    ) as service:
        for _ in range(30):
            service.put([Message("T", 0, b"x")])
            await trio.sleep(1)
        scan_py = service.state.scan_py
        page = disk.open(CHECKPOINT).read(0, 4096)
        end = service.store.commit_log.max_offset

    assert TimerCheckpoint.decode(page).last_read_time_ms >= START_MS + 24_000
    assert scan_py > end * 3 // 4


async def test_garbage_goes(autojump_clock: MockClock) -> None:
    """Segments of the timer log go with the messages of their units."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    hours = ";".join(map(str, range(24)))
    files = attrs.evolve(
        SMALL_FILES,
        mapped_file_size_commit_log=4096,
        file_reserved_time_hours=0,
        delete_when=hours,
    )
    async with running(disk, clock, store_options=files, timer_options=SMALL_SEGMENTS) as service:
        for n in range(120):
            service.put([timed(f"m{n}", clock.now_ms() + 1_500)])
            await trio.sleep(1)
        min_pos = service.files.timer_log.min_pos
        units = next(service.files.timer_log.scan(min_pos))[1]
        min_py = service.store.commit_log.min_offset

    assert min_py > 0
    assert min_pos > 0
    assert int(units["offset_py"].max()) >= min_py - 4096


async def test_a_full_disk_puts_the_checkpoint_off(autojump_clock: MockClock) -> None:
    """There is no room for the wheel's file: the service goes on, and the next try succeeds."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=OPTIONS) as service:
        service.put([timed("m", START_MS + 20_000)])
        await trio.sleep(0.5)
        disk.total = disk.usage(ROOT).used
        await trio.sleep(10)

        assert not disk.exists(WHEEL)

        disk.total = 1 << 50
        await trio.sleep(30)
        found = [one.body for one in arrivals(service.store)]

    assert ["m"] == found
    assert disk.exists(WHEEL)


async def test_old_segments_that_are_not_removed_fail_the_store(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sync that fails does: what is on such a disk is not to be trusted."""

    async def refuse(_: TimerLog, min_phy: int, needed_pos: int | None) -> int:
        raise OSError(errno.EIO, f"not read, {min_phy} {needed_pos}")

    rig = Rig()
    monkeypatch.setattr(TimerLog, "delete_before_phy", refuse)
    monkeypatch.setattr(rig.flush, "_collected_py", -1)

    with pytest.raises(StoreFailedError, match="not read, 0"):
        await rig.flush.run()
