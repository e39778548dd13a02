"""The file of a part: blocks behind their sizes, whole only under its last name."""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from bulk_driver import small_block
from timermq.broker.bulk.staged_part import StagedPart, blocks_in, whole_part
from timermq.remoting.bulk_block import BulkBlockError
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk

PATH = "/bulk/J/p"
BLOCKS = [small_block(["a", "b"]).encode(), small_block(["c"]).encode()]


def staged(disk: MemoryDisk) -> StagedPart:
    """A part of two blocks, not finished."""
    disk.make_dirs("/bulk/J")
    part = StagedPart(path=PATH)
    for block, rows in zip(BLOCKS, (2, 1), strict=True):
        part.append(disk, block, rows, "T")
    return part


def test_blocks_stand_one_behind_the_other() -> None:
    """Each is found by its head, with the number of its first row."""
    disk = MemoryDisk()
    part = staged(disk)
    with closing(disk.open(part.file_path, read_only=True)) as file:
        found = [(one.first_row, one.rows, one.read(file)) for one in blocks_in(file)]

    assert found == [(0, 2, BLOCKS[0]), (2, 1, BLOCKS[1])]
    assert (part.blocks, part.rows, part.topics) == (2, 3, {"T"})
    assert part.size == 4 + len(BLOCKS[0]) + 4 + len(BLOCKS[1])


def test_only_the_newest_block_is_taken_for_a_repeat() -> None:
    """By its number and its checksum: another one of that number is a fault of the driver."""
    part = staged(MemoryDisk())

    assert part.repeats(1, BLOCKS[1])
    assert not part.repeats(0, BLOCKS[1])
    assert not part.repeats(1, BLOCKS[0])
    assert not StagedPart(path=PATH).repeats(-1, bytes(16))


def test_a_write_that_fails_leaves_the_part_as_it_was() -> None:
    """What it has left of itself in the file is cut."""
    inner = MemoryDisk()
    part = staged(inner)
    before = (part.blocks, part.rows, part.size, part.newest_crc)
    short = FaultRule(operations=[Operation.WRITE], fault=Fault(errno.ENOSPC, written=3))
    with pytest.raises(OSError, match="No space") as failure:
        part.append(FaultyDisk(inner, "/", FaultRules(short)), BLOCKS[0], 2, "U")

    assert failure.value.errno == errno.ENOSPC
    assert (part.blocks, part.rows, part.size, part.newest_crc) == before
    assert part.topics == {"T"}
    with closing(inner.open(part.file_path, read_only=True)) as file:
        assert file.size() == part.size


async def test_a_finished_part_is_found_whole_by_the_next_process() -> None:
    """Its name says that it is durable; blocks and rows are counted by their heads."""
    disk = MemoryDisk()
    part = staged(disk)
    await part.finish(disk)
    disk.power_cut()
    found = whole_part(disk, PATH)

    assert disk.list_dir("/bulk/J") == ["p.part"]
    assert (found.blocks, found.rows, found.size) == (part.blocks, part.rows, part.size)
    assert found.repeats(1, BLOCKS[1])
    assert found.is_whole
    part.remove(disk)
    assert disk.list_dir("/bulk/J") == []


async def test_a_damaged_head_ends_the_count_of_blocks() -> None:
    """The commit tells of the damage: a look at the heads does not judge."""
    disk = MemoryDisk()
    part = staged(disk)
    await part.finish(disk)
    disk.rot(part.file_path, 4 + len(BLOCKS[0]), b"\xff\xff\xff\x7f")
    with (
        closing(disk.open(part.file_path, read_only=True)) as file,
        pytest.raises(BulkBlockError, match="expected 2147483647 bytes"),
    ):
        list(blocks_in(file))

    assert (whole_part(disk, PATH).blocks, whole_part(disk, PATH).rows) == (1, 2)
