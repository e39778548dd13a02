"""Where a log ends, and what is cleared behind it."""

from __future__ import annotations

from timer_units import SEGMENT_SIZE, append_units
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import TimerLog
from timermq.timerlog.log_end import CLEAR_SIZE, clear_behind, find_end
from timermq.timerstore.mapped_file_queue import MappedFileQueue

DIRECTORY = "/store/timerlog"


def loaded(disk: MemoryDisk, segment_size: int = SEGMENT_SIZE) -> MappedFileQueue:
    """The segments, ended where their files end."""
    queue = MappedFileQueue(disk, DIRECTORY, segment_size, reserve=True)
    queue.load()
    return queue


def with_units(count: int, segment_size: int = SEGMENT_SIZE) -> MemoryDisk:
    """A disk with a log of ``count`` units."""
    disk = MemoryDisk()
    append_units(TimerLog.open(disk, DIRECTORY, segment_size), [1] * count, {})
    return disk


def test_without_segments_the_log_ends_at_zero() -> None:
    """An empty directory is an empty log."""
    assert find_end(loaded(MemoryDisk()), 0) == 0


def test_the_log_ends_behind_the_last_unit() -> None:
    """In the middle of a segment, and in a full one that is not closed."""
    assert find_end(loaded(with_units(3)), 0) == 156
    assert find_end(loaded(with_units(4)), 0) == 208
    assert find_end(loaded(with_units(5)), 0) == 302


def test_a_closed_segment_without_a_next_one_ends_the_log_at_its_end() -> None:
    """The blank counts as written when the segment behind it was lost."""
    disk = with_units(5)
    disk.remove(f"{DIRECTORY}/{SEGMENT_SIZE:020d}")

    assert find_end(loaded(disk), 0) == SEGMENT_SIZE


def test_a_next_segment_without_units_ends_the_log_at_its_start() -> None:
    """A segment that was made but not written has no owner."""
    disk = with_units(5)
    disk.open(f"{DIRECTORY}/{SEGMENT_SIZE:020d}").write(0, bytes(52))

    assert find_end(loaded(disk), 0) == SEGMENT_SIZE


def test_a_blank_with_another_length_does_not_close() -> None:
    """The blank must name the bytes that are left."""
    disk = with_units(5)
    disk.open(f"{DIRECTORY}/{0:020d}").write(208, b"\0\0\0\x2b")

    assert find_end(loaded(disk), 0) == 208


def test_the_rest_of_the_segment_is_cleared() -> None:
    """Everything from the end to the end of the segment is zero then, nothing before it."""
    size = CLEAR_SIZE + 4096
    disk = with_units(4, size)
    file = disk.open(f"{DIRECTORY}/{0:020d}")
    before = file.read(0, 104)
    file.write(size - 1, b"\x01")
    clear_behind(loaded(disk, size), 104)

    assert before == file.read(0, 104)
    assert bytes(size - 104) == file.read(104, size)


def test_an_end_without_a_segment_needs_no_clearing() -> None:
    """At the end of the last segment there is nothing behind."""
    clear_behind(loaded(with_units(2)), SEGMENT_SIZE)
