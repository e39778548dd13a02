"""Timer log, wheel and checkpoint of a stopped store against each other."""

from __future__ import annotations

import pytest
import trio

from damaged_stores import LATER_MS, checked, on_disk, overwrite, small_image
from simulation.staged_service import ROOT, SMALL_WHEEL
from timermq.repair.finding import Finding, Step
from timermq.repair.store_rule import Severity
from timermq.repair.timer_check import TimerCheck
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT, TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT, EXTENSION_AT
from timermq.wheel import SLOT

PAGE = f"{ROOT}/config/timercheck"
WHEEL = f"{ROOT}/timerwheel"


@pytest.fixture(scope="module")
def image() -> Image:
    """The files of a small store with timers in every state, stopped in order."""
    return trio.run(small_image, clock=trio.testing.MockClock(autojump_threshold=0))


def looked_at(disk: MemoryDisk, now_ms: int = LATER_MS) -> tuple[TimerCheck, list[Finding]]:
    """The check of the timers, and what it finds; it reads the commit log before."""
    store = checked(disk, now_ms=now_ms)
    log = store.open_log(())
    list(log.run())
    timers = store.open_timers(log)
    found = list(timers.find())
    log.close()
    return timers, found


def steps(found: list[Finding]) -> set[tuple[str, Step]]:
    """Rules and steps of findings."""
    return {(one.rule.name, one.step) for one in found}


def segment(image: Image) -> str:
    """Path of the oldest segment of the timer log."""
    return min(path for path in image if "/timerlog/" in path and "seals" not in path)


def test_a_sound_store_has_no_findings(image: Image) -> None:
    """Its end and its read time are known by the look."""
    timers, found = looked_at(on_disk(image))

    assert found == []
    assert timers.is_ours
    assert not timers.is_absent
    assert timers.end > 0
    assert timers.read_ms == timers.checkpoint.last_read_time_ms > 0


def newest_live(disk: MemoryDisk) -> int:
    """Index of a slot of the wheel that has messages and is still to be read."""
    data = disk.open(WHEEL, read_only=True).read(0, 1 << 20)
    read_ms = TimerCheckpoint.decode(
        disk.open(PAGE, read_only=True).read(0, 4096)
    ).last_read_time_ms
    live = [
        index
        for index in range(len(data) // SLOT.size)
        if SLOT.unpack(data, index * SLOT.size)[0] * SMALL_WHEEL.timer_precision_ms >= read_ms
    ]
    return live[-1]


def test_a_unit_that_is_none_ends_the_log_before_it(image: Image) -> None:
    """Good ones follow: messages behind the cut are enqueued again."""
    disk = on_disk(image)
    overwrite(disk, segment(image), 2 * UNIT.size, bytes(UNIT.size))
    timers, found = looked_at(disk)

    assert ("CHAIN_BROKEN", Step.CUT_TIMER_LOG) in steps(found)
    assert timers.end == 2 * UNIT.size


def test_units_lost_at_the_end_are_missed_by_their_messages(image: Image) -> None:
    """The wheel shows them, and the checkpoint counts their messages as enqueued."""
    disk = on_disk(image)
    for path in image:
        if "/timerlog/" in path and "seals" not in path and path != segment(image):
            disk.remove(path)
    overwrite(disk, segment(image), UNIT.size, bytes(len(image[segment(image)]) - UNIT.size))
    timers, found = looked_at(disk)

    assert steps(found) >= {
        ("LOST", Step.ENQUEUE_AGAIN),
        ("WHEEL_DIFFERS", Step.REBUILD_WHEEL),
    }
    assert timers.end == UNIT.size


@pytest.mark.parametrize("how", ["missing", "short"])
def test_a_wheel_of_another_size_is_made_again(image: Image, how: str) -> None:
    """From the units of the log: nothing is lost."""
    disk = on_disk(image)
    if how == "missing":
        disk.remove(WHEEL)
    else:
        disk.open(WHEEL).truncate(SLOT.size)
    _, found = looked_at(disk)

    assert steps(found) == {("WHEEL_DIFFERS", Step.REBUILD_WHEEL)}
    assert found[0].severity is Severity.DERIVED


@pytest.mark.parametrize(("ahead", "more"), [(0, 1), (UNIT.size, 0)])
def test_a_slot_that_shows_other_units_is_told(image: Image, ahead: int, more: int) -> None:
    """The number of its messages, or its newest unit."""
    disk = on_disk(image)
    at = newest_live(disk) * SLOT.size
    time, first, last, num, magic = SLOT.unpack(disk.open(WHEEL).read(at, SLOT.size), 0)
    overwrite(disk, WHEEL, at, SLOT.pack(time, first, last + ahead, num + more, magic))
    _, found = looked_at(disk)

    assert steps(found) == {("WHEEL_DIFFERS", Step.REBUILD_WHEEL)}
    assert (found[0].offset, found[0].count) == (at, 1)


def test_a_slot_that_is_missing_is_told(image: Image) -> None:
    """The log has units of it that are still to be read."""
    disk = on_disk(image)
    at = newest_live(disk) * SLOT.size
    overwrite(disk, WHEEL, at, bytes(SLOT.size))
    _, found = looked_at(disk)

    assert ("WHEEL_DIFFERS", Step.REBUILD_WHEEL) in steps(found)
    assert [one.found for one in found] == ["none"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("last_read_time_ms", LATER_MS * 2),
        ("last_timer_queue_offset", 1 << 40),
    ],
)
def test_a_checkpoint_of_rocketmq_that_says_more_than_is_there_is_reset(
    image: Image, name: str, value: int
) -> None:
    """Ours has a checksum: a later read time means that the clock was set back."""
    disk = on_disk(image)
    overwrite(disk, PAGE, EXTENSION_AT, bytes(64))
    overwrite(disk, PAGE, CHECKPOINT.offset_of(name), value.to_bytes(8))
    _, found = looked_at(disk)

    assert ("CHECKPOINT_WRONG", Step.RESET_CHECKPOINT) in steps(found)


def test_a_clock_that_was_set_back_is_no_damage(image: Image) -> None:
    """The page of ours says of itself that it is whole."""
    assert looked_at(on_disk(image), now_ms=0)[1] == []


def test_a_checkpoint_of_another_size_or_none_is_told(image: Image) -> None:
    """Without one everything is read again: only that there are units is worth telling."""
    short, missing = on_disk(image), on_disk(image)
    short.open(PAGE).truncate(9)
    missing.remove(PAGE)
    timers, found = looked_at(missing)

    assert timers.is_absent
    assert ("CHECKPOINT_WRONG", Step.RESET_CHECKPOINT) in steps(looked_at(short)[1])
    assert ("CHECKPOINT_WRONG", Step.RESET_CHECKPOINT) in steps(found)


def test_a_block_of_ours_with_another_checksum_is_worth_knowing(image: Image) -> None:
    """A Java broker has written since, or the page is damaged: neither is to be repaired."""
    disk = on_disk(image)
    overwrite(disk, PAGE, EXTENSION_AT + 9, b"\x77")
    notes = [one for one in looked_at(disk)[1] if one.file == "config/timercheck"]

    assert [(one.severity, one.step) for one in notes] == [(Severity.NOTE, Step.NOTHING)]
