"""Tests of one consume queue."""

from __future__ import annotations

import errno
import mmap

import pytest
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerstore.consume_queue import ConsumeQueue, QueueGapError
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.queue_unit import FILLER, UNIT

DIRECTORY = "/store/consumequeue/T/0"
SIZE = 100
"""Five units."""


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def new_queue(disk: MemoryDisk, *, read_only: bool = False) -> ConsumeQueue:
    """A queue on the disk that is not recovered yet."""
    return ConsumeQueue(disk, DIRECTORY, "T", 0, segment_size=SIZE, read_only=read_only)


def reopened(disk: MemoryDisk, *, read_only: bool = False) -> ConsumeQueue:
    """The queue as it is found on the disk."""
    disk.process_kill()
    queue = new_queue(disk, read_only=read_only)
    queue.recover()
    return queue


def units(first: int, count: int) -> bytes:
    """Units of records of ten bytes, one behind the other."""
    return b"".join(UNIT.pack(number * 10, 10, number) for number in range(first, first + count))


def filled(disk: MemoryDisk, count: int, first: int = 0) -> ConsumeQueue:
    """A queue of such units."""
    queue = new_queue(disk)
    queue.append(first, units(first, count), (first + count) * 10)
    return queue


def read(queue: ConsumeQueue, first: int, count: int = 100) -> list[int]:
    """Tags codes, which are the units' numbers."""
    return [int(code) for code in queue.units(first, count)["tags_code"]]


def test_no_unit_is_read_through_a_map(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map is a further open file for each queue, and there may be as many queues as files."""

    def refused(file: MemoryFile) -> mmap.mmap:
        raise OSError(errno.EMFILE, "Too many open files", file.path)

    monkeypatch.setattr(MemoryFile, "map", refused)
    filled(disk, 7)
    queue = reopened(disk)

    assert [0, 1, 2, 3, 4] == read(queue, 0)
    assert [5, 6] == read(queue, 5)
    assert 6 == queue.find_phy_offset(60, 0, 7)


def test_a_new_queue_is_empty(disk: MemoryDisk) -> None:
    """Nothing is on the disk before the first unit."""
    queue = new_queue(disk)

    assert (0, 0, -1) == (queue.min_offset, queue.max_offset, queue.max_physic_offset)
    assert [] == read(queue, 0)
    assert not disk.exists("/store/consumequeue")


def test_units_are_read_up_to_the_end_of_their_segment(disk: MemoryDisk) -> None:
    """A reader asks again for the next segment."""
    queue = filled(disk, 12)

    assert [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]] == [read(queue, at) for at in (0, 5, 10)]
    assert [3] == read(queue, 3, 1)


@pytest.mark.parametrize(("first", "count"), [(-1, 5), (12, 5), (100, 5), (3, 0)])
def test_nothing_is_read_outside_the_queue(disk: MemoryDisk, first: int, count: int) -> None:
    """Offsets outside [min, max) yield nothing."""
    assert [] == read(filled(disk, 12), first, count)


def test_what_the_queue_holds_is_not_appended_again(disk: MemoryDisk) -> None:
    """Dispatch may repeat itself after a crash."""
    queue = filled(disk, 4)

    queue.append(1, units(1, 2), 30)
    queue.append(2, units(2, 5), 70)

    assert (7, 70) == (queue.max_offset, queue.max_physic_offset)
    assert [0, 1, 2, 3, 4] == read(queue, 0)


def test_a_gap_is_an_error(disk: MemoryDisk) -> None:
    """RocketMQ would put the unit at a wrong place."""
    queue = filled(disk, 4)

    expected = f"{DIRECTORY}: at 80: expected unit 4, found unit 6"
    with pytest.raises(QueueGapError, match=f"^{expected}$"):
        queue.append(6, units(6, 1), 70)

    assert queue.max_offset == 4


def test_a_queue_may_begin_at_any_offset(disk: MemoryDisk) -> None:
    """Filler units stand before its first message, and no reader sees them."""
    filled(disk, 3, first=17)

    queue = reopened(disk)
    queue.correct_min_offset(0)

    assert (17, 20) == (queue.min_offset, queue.max_offset)
    assert [17, 18, 19] == read(queue, 17)
    assert disk.list_dir(DIRECTORY) == [f"{300:020d}"]
    assert disk.open(f"{DIRECTORY}/{300:020d}").read(0, 40) == FILLER * 2


def test_an_empty_queue_goes_on_at_another_offset(disk: MemoryDisk) -> None:
    """What is left of its files is filled up, or removed when it is too far away."""
    queue = filled(disk, 3)
    queue.correct_min_offset(1000)

    queue.append(4, units(4, 1), 50)

    assert (4, 5, [4]) == (queue.min_offset, queue.max_offset, read(queue, 4))

    queue.correct_min_offset(1000)
    queue.append(23, units(23, 1), 240)

    assert (23, 24, [23]) == (queue.min_offset, queue.max_offset, read(queue, 23))
    assert disk.list_dir(DIRECTORY) == [f"{400:020d}"]

    queue.correct_min_offset(1000)
    queue.append(2, units(2, 1), 30)

    assert (2, 3, [2]) == (queue.min_offset, queue.max_offset, read(queue, 2))


@pytest.mark.parametrize("count", [0, 1, 5, 6, 20, 23])
def test_a_queue_is_found_again(disk: MemoryDisk, count: int) -> None:
    """An all-zero unit was never written, and ends the queue."""
    filled(disk, count)

    queue = reopened(disk)

    assert (0, count, count * 10 or -1) == (
        queue.min_offset,
        queue.max_offset,
        queue.max_physic_offset,
    )


@pytest.mark.parametrize(
    "unit",
    [UNIT.pack(-10, 10, 0), UNIT.pack(90, 0, 0), UNIT.pack(90, -1, 0), UNIT.pack(80, 10, 0)],
)
def test_a_unit_that_cannot_be_true_ends_the_queue(disk: MemoryDisk, unit: bytes) -> None:
    """Positions ascend, sizes are positive."""
    filled(disk, 12)
    disk.open(f"{DIRECTORY}/{100:020d}").write(80, unit)

    assert reopened(disk).max_offset == 9


def test_only_the_newest_segments_are_checked(disk: MemoryDisk) -> None:
    """Older ones were complete long ago."""
    filled(disk, 18)
    disk.open(f"{DIRECTORY}/{0:020d}").write(0, bytes(100))

    assert reopened(disk).max_offset == 18


def test_newest_segments_without_units_are_not_the_end(disk: MemoryDisk) -> None:
    """A power cut has left three segments empty, and units torn out of the one before them."""
    filled(disk, 24)
    for start, torn_size in ((100, 60), (200, 100), (300, 100), (400, 80)):
        torn_at = 100 - torn_size
        disk.open(f"{DIRECTORY}/{start:020d}").write(torn_at, bytes(torn_size))

    queue = reopened(disk)

    assert (7, 70) == (queue.max_offset, queue.max_physic_offset)


def test_a_cut_before_a_hole_finds_its_place(disk: MemoryDisk) -> None:
    """Units that were never written stand between true ones: nothing from them on is kept."""
    filled(disk, 24)
    disk.open(f"{DIRECTORY}/{100:020d}").write(0, bytes(100))
    queue = reopened(disk)
    assert queue.max_offset == 24

    queue.cut(120)

    assert (5, [0, 1, 2, 3, 4]) == (queue.max_offset, read(queue, 0))


def test_a_foreign_file_is_refused(disk: MemoryDisk) -> None:
    """A segment of another size is one of other settings."""
    filled(disk, 3)
    disk.open(f"{DIRECTORY}/{100:020d}", create=True).truncate(40)

    with pytest.raises(StoreFormatError, match="expected a segment of 100 bytes, found 40"):
        reopened(disk)


@pytest.mark.parametrize(("phy_offset", "left"), [(0, 0), (30, 3), (35, 4), (100, 10), (120, 12)])
def test_a_cut_leaves_no_stale_unit(disk: MemoryDisk, phy_offset: int, left: int) -> None:
    """Behind the end everything is zero: the next recovery must not take it for units."""
    queue = filled(disk, 12)

    queue.cut(phy_offset)

    assert (left, left * 10 or -1) == (queue.max_offset, queue.max_physic_offset)
    assert reopened(disk).max_offset == left


def test_old_segments_go_with_their_records(disk: MemoryDisk) -> None:
    """The oldest readable unit is the first whose record the log still holds."""
    queue = filled(disk, 12)

    assert queue.delete_before(70) == 1
    assert (7, [7, 8, 9]) == (queue.min_offset, read(queue, 7))
    assert [] == read(queue, 6)
    assert [f"{100:020d}", f"{200:020d}"] == disk.list_dir(DIRECTORY)

    assert queue.delete_before(1000) == 1
    assert queue.is_empty
    assert queue.max_offset == 12


def test_read_only_units_stay_in_memory(disk: MemoryDisk) -> None:
    """Nothing is written, and everything is readable."""
    filled(disk, 7)

    queue = reopened(disk, read_only=True)
    queue.cut(30)
    queue.append(3, b"".join(UNIT.pack(n * 10, 10, n + 100) for n in range(3, 9)), 90)

    assert ([0, 1, 2], [103, 104, 105, 106, 107, 108]) == (read(queue, 0), read(queue, 3))
    assert reopened(disk).max_offset == 7


def test_read_only_a_missing_queue_is_in_memory(disk: MemoryDisk) -> None:
    """Also one that begins late."""
    queue = new_queue(disk, read_only=True)

    queue.append(17, units(17, 2), 190)

    assert (17, 19, [17, 18]) == (queue.min_offset, queue.max_offset, read(queue, 17))
    assert not disk.exists(DIRECTORY)


def test_what_the_disk_does_not_take_can_be_appended_again(disk: MemoryDisk) -> None:
    """A failed append leaves the queue as it was, even between two segments."""
    queue = filled(disk, 4)
    disk.total = disk.usage("/").used

    with pytest.raises(OSError, match="no space left"):
        queue.append(4, units(4, 3), 70)

    assert (4, [0, 1, 2, 3]) == (queue.max_offset, read(queue, 0))

    disk.total = 1 << 20
    queue.append(4, units(4, 3), 70)

    assert ([4], [5, 6]) == (read(queue, 4), read(queue, 5))


async def test_flushed_units_survive_a_power_cut(disk: MemoryDisk) -> None:
    """A flush makes the units, their segments and the names of these durable."""
    queue = filled(disk, 7)
    await queue.flush()
    queue.append(7, units(7, 5), 120)
    disk.power_cut()

    assert reopened(disk).max_offset == 7
    await trio.lowlevel.checkpoint()


def test_a_removed_queue_leaves_nothing(disk: MemoryDisk) -> None:
    """Not even after a power cut."""
    queue = filled(disk, 7)
    trio.run(queue.flush)

    queue.remove()
    disk.power_cut()

    assert disk.list_dir(DIRECTORY) == []


class WrittenPart:
    """A view that dies where nothing was written, as that of a sparse file on a full tmpfs does."""

    def __init__(self, view: mmap.mmap, size: int) -> None:
        self._view = view
        self._size = size

    def __getitem__(self, part: slice) -> bytes:
        assert part.stop <= self._size, f"SIGBUS: {part} of {self._size} written bytes"
        return self._view[part]


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_no_view_of_a_hole_is_read(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """On a full disk of memory that takes a block that is not there: the process would die."""
    filled(disk, count)
    real = MemoryFile.map

    def holey(file: MemoryFile) -> WrittenPart:
        start = int(file.path.rpartition("/")[2])
        return WrittenPart(real(file), count * UNIT.size - start)

    monkeypatch.setattr(MemoryFile, "map", holey)
    queue = reopened(disk)

    assert list(range(count)) == read(queue, 0) + read(queue, 5)
