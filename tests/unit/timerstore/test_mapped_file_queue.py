"""Tests of logs in segments."""

from __future__ import annotations

import errno

import pytest
import trio

from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.mapped_file_queue import MappedFileQueue

LOG = "/store/log"


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def new_queue(
    disk: MemoryDisk, *, size: int = 10, reserve: bool = True, read_only: bool = False
) -> MappedFileQueue:
    """A log of small segments, not loaded."""
    return MappedFileQueue(disk, LOG, size, reserve=reserve, read_only=read_only)


def loaded(disk: MemoryDisk, *, size: int = 10, read_only: bool = False) -> MappedFileQueue:
    """The log as it is opened again."""
    queue = new_queue(disk, size=size, read_only=read_only)
    queue.load()
    return queue


def filled(disk: MemoryDisk, count: int, *, first: int = 0) -> MappedFileQueue:
    """A log whose segments hold their number as digits."""
    queue = new_queue(disk)
    for number in range(first, first + count):
        queue.write(number * 10, str(number % 10).encode() * 10)
    return queue


def put_file(disk: MemoryDisk, name: str, size: int) -> None:
    """A file that another program left in the directory."""
    disk.make_dirs(LOG)
    disk.open(f"{LOG}/{name}", create=True).truncate(size)


def name(start: int) -> str:
    """The name of a segment: its first position in twenty digits."""
    return f"{start:020d}"


def test_a_new_log_is_empty(disk: MemoryDisk) -> None:
    """Without a directory there are no segments, and nothing is created by looking."""
    queue = loaded(disk)

    assert (queue.segments, queue.min_offset, queue.wrote, queue.flushed_where) == ([], 0, 0, 0)
    assert queue.room() == 0
    assert queue.read(0, 5) == b""
    assert not disk.exists(LOG)


def test_segments_are_named_by_their_start(disk: MemoryDisk) -> None:
    """Each segment has its whole length from the start, and 20 digits as its name."""
    queue = filled(disk, 2)
    queue.write(20, b"abc")

    assert disk.list_dir(LOG) == [name(0), name(10), name(20)]
    assert [(one.start, one.end, one.file.size()) for one in queue.segments] == [
        (0, 10, 10),
        (10, 20, 10),
        (20, 30, 10),
    ]
    assert (queue.wrote, queue.room()) == (23, 7)


def test_reads_stay_inside_one_segment(disk: MemoryDisk) -> None:
    """A read ends with its segment and with the data."""
    queue = filled(disk, 2)
    queue.write(20, b"abc")

    assert queue.read(8, 5) == b"00"
    assert queue.read(10, 3) == b"111"
    assert queue.read(21, 5) == b"bc"
    assert queue.read(23, 1) == b""
    assert queue.read(30, 1) == b""
    assert queue.read(-1, 1) == b""


def test_writing_over_does_not_move_the_end(disk: MemoryDisk) -> None:
    """The end follows only writes behind it."""
    queue = filled(disk, 1)
    queue.write(2, b"xy")

    assert queue.wrote == 10
    assert queue.read(0, 10) == b"00xy000000"


def test_a_log_may_begin_anywhere(disk: MemoryDisk) -> None:
    """The first segment is the one that covers the first write."""
    queue = new_queue(disk)
    queue.write(47, b"abc")

    assert disk.list_dir(LOG) == [name(40)]
    assert (queue.min_offset, queue.wrote, queue.flushed_where) == (40, 50, 40)
    assert queue.segment_at(39) is None
    assert queue.segment_at(47) is queue.segments[0]


def test_reserved_and_sparse_segments(disk: MemoryDisk) -> None:
    """Logs take their space at once, queues as they grow."""
    reserved = MappedFileQueue(disk, "/store/a", 3 * BLOCK_SIZE, reserve=True)
    reserved.start_segment(0)
    after_reserved = disk.usage("/").used
    sparse = MappedFileQueue(disk, "/store/b", 3 * BLOCK_SIZE, reserve=False)
    sparse.start_segment(0)

    assert after_reserved == 3 * BLOCK_SIZE
    assert disk.usage("/").used == 3 * BLOCK_SIZE
    assert sparse.segments[0].file.size() == 3 * BLOCK_SIZE


def test_a_segment_that_finds_no_room_leaves_nothing(disk: MemoryDisk) -> None:
    """A full disk shows when a segment begins, and the log is as it was."""
    disk.total = 2 * BLOCK_SIZE
    queue = new_queue(disk, size=2 * BLOCK_SIZE)
    queue.write(0, b"x" * 2 * BLOCK_SIZE)
    with pytest.raises(OSError, match="no space left"):
        queue.write(2 * BLOCK_SIZE, b"y")

    assert disk.list_dir(LOG) == [name(0)]
    assert (queue.wrote, len(queue.segments)) == (2 * BLOCK_SIZE, 1)


def no_map(disk: MemoryDisk, *, count: int | None = 1) -> FaultyDisk:
    """The disk while too many files are open for a further map."""
    rule = FaultRule(operations=[Operation.MAP], fault=Fault(errno.EMFILE), count=count)
    return FaultyDisk(disk, "/store", FaultRules(rule))


def test_a_segment_that_cannot_be_mapped_leaves_nothing(disk: MemoryDisk) -> None:
    """It shows when the segment begins, not to who reads; the next try goes well."""
    faulty = no_map(disk)
    queue = MappedFileQueue(faulty, LOG, 10, reserve=True)
    with pytest.raises(OSError, match="Too many open files"):
        queue.write(0, b"abc")
    left = (disk.list_dir(LOG), list(queue.segments), queue.wrote)
    queue.write(0, b"abc")

    assert ([], [], 0) == left
    assert b"abc" == queue.read(0, 10)


def test_reading_a_log_maps_nothing(disk: MemoryDisk) -> None:
    """Segments that were loaded, and those begun since, are read however many files are open."""
    filled(disk, 2).close()
    faulty = FaultyDisk(disk, "/store")
    queue = MappedFileQueue(faulty, LOG, 10, reserve=True)
    queue.load()
    queue.write(20, b"2" * 10)
    faulty.plan = no_map(disk, count=None).plan

    assert [b"0" * 10, b"1" * 10, b"2" * 10] == [queue.read(at, 10) for at in (0, 10, 20)]


def test_a_load_that_runs_out_of_files_gives_them_back(disk: MemoryDisk) -> None:
    """Nothing is changed, no file stays open, and the next load goes well."""
    filled(disk, 3).close()
    put_file(disk, name(30), 0)
    for operation in (Operation.OPEN, Operation.MAP):
        fault = Fault(errno.EMFILE)
        rule = FaultRule(operations=[operation], fault=fault, name=name(20))
        faulty = FaultyDisk(disk, "/store", FaultRules(rule))
        queue = MappedFileQueue(faulty, LOG, 10, reserve=True)
        with pytest.raises(OSError, match="Too many open files"):
            queue.load()

        assert [] == queue.segments
        assert 4 == len(disk.list_dir(LOG))
        # An open map would hold the length.
        disk.open(f"{LOG}/{name(0)}").truncate(11)
        disk.open(f"{LOG}/{name(0)}").truncate(10)
    queue.load()

    assert 30 == queue.wrote


def test_load(disk: MemoryDisk) -> None:
    """A loaded log counts as written and flushed up to the end of its last segment."""
    filled(disk, 2, first=3).close()
    disk.make_dirs(f"{LOG}/a directory")
    queue = loaded(disk)

    assert (queue.min_offset, queue.wrote, queue.flushed_where) == (30, 50, 50)
    assert queue.read(40, 10) == b"4" * 10
    assert queue.room() == 0


def test_load_removes_an_empty_last_segment(disk: MemoryDisk) -> None:
    """It was being created when the process died."""
    filled(disk, 1).close()
    put_file(disk, name(10), 0)
    queue = loaded(disk)

    assert disk.list_dir(LOG) == [name(0)]
    assert queue.wrote == 10


def test_load_removes_all_empty_last_segments(disk: MemoryDisk) -> None:
    """After a power cut several names may be durable whose lengths are not."""
    filled(disk, 1).close()
    put_file(disk, name(10), 0)
    put_file(disk, name(20), 0)
    queue = loaded(disk)

    assert disk.list_dir(LOG) == [name(0)]
    assert queue.wrote == 10


def test_load_read_only_leaves_it(disk: MemoryDisk) -> None:
    """A tool ignores the empty segment, and cuts only what it has in memory."""
    filled(disk, 2).close()
    put_file(disk, name(20), 0)
    queue = loaded(disk, read_only=True)
    queue.set_end(5)

    assert [one.start for one in queue.segments] == [0]
    assert queue.read(0, 10) == b"00000"
    assert disk.list_dir(LOG) == [name(0), name(10), name(20)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({0: 9, 10: 10}, "{0}: at 9: expected a segment of 10 bytes, found 9"),
        ({0: 11}, "{0}: at 11: expected a segment of 10 bytes, found 11"),
        ({0: 0, 10: 10}, "{0}: at 0: expected a segment of 10 bytes, found 0"),
        ({5: 10}, "{0}: at 0: expected a name of 20 digits, a multiple of 10, found {n0}"),
        ({0: 10, 20: 10}, "{1}: at 0: expected the segment that begins at 10, found {n1}"),
        ({0: 10, 20: 0}, "{1}: at 0: expected the segment that begins at 10, found {n1}"),
    ],
)
def test_load_refuses_foreign_files(disk: MemoryDisk, files: dict[int, int], message: str) -> None:
    """Another length, a wrong name and a gap are errors that name the file; nothing is changed."""
    for start, size in files.items():
        put_file(disk, name(start), size)
    queue = new_queue(disk)
    with pytest.raises(StoreFormatError) as error:
        queue.load()
    names = [name(start) for start in files]
    numbered = {f"n{index}": one for index, one in enumerate(names)}

    assert str(error.value) == message.format(*(f"{LOG}/{one}" for one in names), **numbered)
    assert disk.list_dir(LOG) == names
    assert queue.segments == []


@pytest.mark.parametrize("foreign", ["notes.txt", "0000000000000000001", "٠" * 20])
def test_load_refuses_other_names(disk: MemoryDisk, foreign: str) -> None:
    """Also an empty file that is no segment stays where it is."""
    filled(disk, 1).close()
    put_file(disk, foreign, 0)
    with pytest.raises(StoreFormatError, match="a name of 20 digits"):
        loaded(disk)

    assert disk.exists(f"{LOG}/{foreign}")


def test_set_end_inside_a_segment(disk: MemoryDisk) -> None:
    """Later segments go, the one that holds the end stays, reads end there."""
    queue = filled(disk, 4)
    queue.mark_flushed(40)
    queue.set_end(13)

    assert disk.list_dir(LOG) == [name(0), name(10)]
    assert (queue.wrote, queue.flushed_where, queue.room()) == (13, 13, 7)
    assert queue.read(10, 10) == b"111"


def test_set_end_between_segments(disk: MemoryDisk) -> None:
    """The segment that begins at the end goes, so that nothing stale is behind it."""
    queue = filled(disk, 3)
    queue.set_end(20)

    assert disk.list_dir(LOG) == [name(0), name(10)]
    assert (queue.wrote, queue.room()) == (20, 0)

    queue.write(20, b"new")

    assert queue.read(20, 10) == b"new"


def test_set_end_keeps_the_place_of_the_log(disk: MemoryDisk) -> None:
    """The only segment stays even when it is empty: its name says where the log goes on."""
    queue = filled(disk, 2, first=3)
    queue.set_end(30)

    assert disk.list_dir(LOG) == [name(30)]
    assert loaded(disk).min_offset == 30


def test_set_end_before_everything(disk: MemoryDisk) -> None:
    """A log that is wrong from its first segment starts again where it is told to."""
    queue = filled(disk, 2, first=3)
    queue.set_end(5)

    assert disk.list_dir(LOG) == []

    queue.write(5, b"abc")

    assert disk.list_dir(LOG) == [name(0)]
    assert queue.read(5, 3) == b"abc"


def test_unflushed_names_the_files_between(disk: MemoryDisk) -> None:
    """Segments with data behind ``flushed_where`` are to be synced, all of them."""
    queue = filled(disk, 3)
    queue.mark_flushed(10)

    assert queue.unflushed() == ([one.file for one in queue.segments[1:]], 30)
    assert queue.unflushed(15) == ([queue.segments[1].file], 15)
    assert queue.unflushed(99)[1] == 30
    assert queue.unflushed(10) == ([], 10)
    assert queue.unflushed(5) == ([], 10)


def test_mark_flushed_only_goes_forward(disk: MemoryDisk) -> None:
    """A sync that ends late does not undo what a later one made sure, nor pass the end."""
    queue = filled(disk, 2)
    queue.mark_flushed(15)
    queue.mark_flushed(10)

    assert queue.flushed_where == 15

    queue.mark_flushed(99)

    assert queue.flushed_where == 20


async def test_flush_makes_everything_durable(disk: MemoryDisk) -> None:
    """One flush is enough for all segments, and for their names and directories."""
    queue = filled(disk, 3)

    assert await queue.flush() == 30
    assert await queue.flush() == 30

    disk.power_cut()
    after = loaded(disk)

    assert after.read(0, 10) + after.read(10, 10) + after.read(20, 10) == b"".join(
        digit * 10 for digit in (b"0", b"1", b"2")
    )


async def test_flush_up_to(disk: MemoryDisk) -> None:
    """A flush up to a position syncs no segment behind it."""
    queue = filled(disk, 3)

    assert await queue.flush(12) == 12

    disk.power_cut()

    assert disk.open(f"{LOG}/{name(10)}").size() == 10
    assert disk.open(f"{LOG}/{name(20)}").size() == 0


async def test_a_removed_segment_stays_removed(disk: MemoryDisk) -> None:
    """After the next flush a power cut does not bring back what ``set_end`` removed."""
    queue = filled(disk, 3)
    await queue.flush()
    queue.set_end(15)
    queue.write(15, b"x")
    await queue.flush()
    disk.power_cut()

    assert disk.list_dir(LOG) == [name(0), name(10)]


async def test_a_cancelled_flush_leaves_the_rest_to_the_next(disk: MemoryDisk) -> None:
    """``flushed_where`` does not move before names are durable too."""
    queue = filled(disk, 2)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.flush()

    assert (scope.cancelled_caught, queue.flushed_where) == (True, 0)

    await queue.flush()
    disk.power_cut()

    assert disk.list_dir(LOG) == [name(0), name(10)]


async def test_a_failed_flush_is_not_counted(disk: MemoryDisk) -> None:
    """The error comes out, and what was to be flushed is not called durable."""
    queue = filled(disk, 2)
    disk.fail_syncs_of = lambda path: path.endswith(name(10))
    with pytest.raises(OSError, match="sync failed"):
        await queue.flush()

    assert queue.flushed_where == 0


async def test_a_flush_of_nothing_is_a_checkpoint(disk: MemoryDisk) -> None:
    """A loop that flushes an idle log can be cancelled."""
    queue = loaded(disk)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.flush()

    assert scope.cancelled_caught


def test_delete_before(disk: MemoryDisk) -> None:
    """Whole segments before a position go, never the last one."""
    queue = filled(disk, 4)

    assert queue.delete_before(9) == 0
    assert queue.delete_before(25) == 2
    assert (queue.min_offset, queue.read(0, 1), queue.read(20, 1)) == (20, b"", b"2")
    assert queue.delete_before(1000) == 1
    assert disk.list_dir(LOG) == [name(30)]


def test_a_closed_log_gives_its_files_back(disk: MemoryDisk) -> None:
    """After ``close`` the files can be changed by others."""
    queue = filled(disk, 1)
    queue.read(0, 1)
    queue.close()
    disk.open(f"{LOG}/{name(0)}").truncate(3)

    assert disk.open(f"{LOG}/{name(0)}").size() == 3
