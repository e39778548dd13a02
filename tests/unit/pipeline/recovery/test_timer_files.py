"""The four files of the timer service: made, opened read only, forgotten."""

from __future__ import annotations

import attrs
import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import ROOT, timed
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from unit.pipeline.recovery.crashed_store import CHECKPOINT, TIMER_LOG, WHEEL
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand


def test_a_read_only_look_makes_nothing() -> None:
    """Not even the folder of the checkpoint."""
    disk = MemoryDisk()
    files = TimerFiles.open(disk, ROOT, TINY, read_only=True)

    assert files.wheel.was_lost
    assert files.checkpoint.last_read_time_ms == 0
    assert [disk.exists(path) for path in (WHEEL, TIMER_LOG, CHECKPOINT)] == [False] * 3
    assert not disk.is_dir(f"{ROOT}/config")


def test_a_wheel_of_another_size_is_refused() -> None:
    """A longer file holds slots that a shorter ring would lose; the others stay closed."""
    disk = MemoryDisk()
    disk.make_dirs(ROOT)
    disk.open(WHEEL, create=True).write(0, bytes(2 * 32 * TINY.slots_total + 32))
    with pytest.raises(StoreFormatError):
        TimerFiles.open(disk, ROOT, TINY)

    TimerFiles.open(disk, ROOT, attrs.evolve(TINY, slots_total=4)).close()


async def test_the_newest_time_is_the_checkpoints() -> None:
    """Store times never go back with a clock that is set right; they count without a checkpoint."""
    rig = StagesByHand(ManualClock())
    files = rig.service.files
    assert files.newest_time_ms(START_MS + 9) == START_MS + 9

    rig.link(timed("a", SLOT_MS + 1))
    await rig.flush()
    assert files.newest_time_ms(START_MS + 9_000_000) == START_MS

    files.promise_less(START_MS + 5_000, 0, 0, 1_000)
    assert files.newest_time_ms(0) == START_MS + 5_000


async def test_a_shorter_promise_is_durable_at_once() -> None:
    """Units that come to stand behind the cut are not taken as durable by a start after a crash."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(f"m{n}", SLOT_MS + 1) for n in range(3)])
    await rig.flush()
    rig.service.files.timer_log.cut(52)
    rig.service.files.promise_less(START_MS, 1, 0, 1_000)
    rig.disk.power_cut()
    saved = TimerFiles.open(rig.disk, ROOT, TINY, read_only=True).checkpoint

    assert (saved.last_timer_log_flush_pos, saved.last_timer_queue_offset) == (52, 1)


async def test_what_is_forgotten_is_forgotten_by_the_checkpoint_first() -> None:
    """Log and ring are empty then, and a power cut brings back nothing that is believed."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(f"m{n}", SLOT_MS + 1) for n in range(6)])
    await rig.flush()
    rig.service.files.erase(SLOT_MS)
    files = rig.service.files
    assert files.timer_log.max_pos == files.timer_log.min_pos
    assert len(files.wheel.live(0)) == 0

    rig.disk.power_cut()
    again = TimerFiles.open(rig.disk, ROOT, TINY, read_only=True)
    assert again.checkpoint.last_timer_log_flush_pos == 0
    assert again.wheel.was_lost
