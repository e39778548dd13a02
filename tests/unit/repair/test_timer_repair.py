"""Timer files brought in line by the recovery that each start does too."""

from __future__ import annotations

import pytest
import trio

from damaged_stores import LATER_MS, checked, on_disk, overwrite, small_image
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL
from timermq.repair.backup import Backup
from timermq.repair.finding import Finding, Step
from timermq.repair.store_rule import StoreRule
from timermq.repair.timer_repair import TimerRepair
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT, TimerCheckpoint

PAGE = "config/timercheck"


@pytest.fixture(scope="module")
def image() -> Image:
    """The files of a small store with timers in every state, stopped in order."""
    return trio.run(small_image, clock=trio.testing.MockClock(autojump_threshold=0))


def segments(image: Image) -> list[str]:
    """Paths of the segments of the timer log under the root, oldest first."""
    return sorted(
        path.removeprefix(f"{ROOT}/")
        for path in image
        if "/timerlog/" in path and "seals" not in path
    )


def repaired(disk: MemoryDisk, *more: Finding) -> tuple[bool, Backup, list[Finding]]:
    """Check and repair the timers; whether it did anything, and what a check finds then."""
    store = checked(disk)
    backup = Backup(disk, ROOT, 0)
    repair = TimerRepair(
        disk=disk,
        root=ROOT,
        store_options=SMALL_FILES,
        timer_options=SMALL_WHEEL,
        backup=backup,
        now_ms=LATER_MS,
    )
    log = store.open_log(())
    list(log.run())
    timers = store.open_timers(log)
    found = [*timers.find(), *more]
    log.close()

    async def run() -> bool:
        return await repair.run(timers, found)

    is_done = trio.run(run)
    return is_done, backup, list(store.find())


def finding(step: Step, subject: object = None) -> Finding:
    """A finding that asks for a step."""
    return Finding(
        rule=StoreRule.LOST, file="", offset=0, expected="", found="", step=step, subject=subject
    )


def page(disk: MemoryDisk) -> TimerCheckpoint:
    """The checkpoint of a disk."""
    return TimerCheckpoint.decode(disk.open(f"{ROOT}/{PAGE}", read_only=True).read(0, 4096))


def test_without_a_step_of_its_own_nothing_is_done(image: Image) -> None:
    """The store's own checkpoint is another file, repaired elsewhere."""
    disk = on_disk(image)
    is_done, backup, _ = repaired(disk, finding(Step.RESET_CHECKPOINT, "checkpoint"))

    assert (is_done, backup.kept) == (False, [])


def test_a_lost_wheel_is_made_from_the_log(image: Image) -> None:
    """The checkpoint stays where it was: nothing is read again."""
    disk = on_disk(image)
    before = page(disk)
    disk.remove(f"{ROOT}/timerwheel")
    is_done, backup, left = repaired(disk)

    assert is_done
    assert left == []
    assert set(segments(image)) < set(backup.kept)
    assert page(disk).last_timer_queue_offset == before.last_timer_queue_offset


def test_behind_a_cut_messages_are_enqueued_again(image: Image) -> None:
    """The log ends there, later segments are kept, and the timer topic is read from its start."""
    disk = on_disk(image)
    overwrite(disk, f"{ROOT}/{segments(image)[0]}", 2 * UNIT.size, bytes(UNIT.size))
    is_done, backup, left = repaired(disk)
    first = disk.open(f"{ROOT}/{segments(image)[0]}", read_only=True)

    assert is_done
    assert left == []
    assert set(segments(image)) <= set(backup.kept)
    assert [path for path in segments(image)[1:] if disk.exists(f"{ROOT}/{path}")] == []
    assert first.read(2 * UNIT.size, 1 << 20).count(0) == first.size() - 2 * UNIT.size
    assert page(disk).last_timer_queue_offset == 0


def test_a_lost_message_is_enqueued_again_from_its_slot(image: Image) -> None:
    """No unit is cut; slots that were read are read once more."""
    disk = on_disk(image)
    slot_ms = page(disk).last_read_time_ms - 3_000
    is_done, _, _ = repaired(disk, finding(Step.ENQUEUE_AGAIN, slot_ms))

    assert is_done
    assert page(disk).last_timer_queue_offset == 0
    assert page(disk).last_read_time_ms <= slot_ms


def test_a_reset_checkpoint_is_made_of_what_the_logs_tell(image: Image) -> None:
    """The damaged page is kept, and the recovery writes another."""
    disk = on_disk(image)
    disk.open(f"{ROOT}/{PAGE}").truncate(9)
    is_done, backup, left = repaired(disk)

    assert is_done
    assert PAGE in backup.kept
    assert left == []
    assert page(disk).extension is not None
