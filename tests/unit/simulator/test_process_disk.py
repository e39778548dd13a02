"""The disk as a process has it: its end at a chosen change."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.simulator.process_disk import BLOCKS_WRITTEN, Place, ProcessDisk

ROOT = "/store"

PATH = "/store/a"


def disk_of() -> MemoryDisk:
    """A disk with a directory."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


@pytest.mark.parametrize(
    ("place", "left"), [(Place.BEFORE, b""), (Place.MIDDLE, b"ab"), (Place.AFTER, b"abcd")]
)
def test_a_write_ends_the_process(place: Place, left: bytes) -> None:
    """Before it, with its first half, or behind it; nothing later reaches the disk."""
    memory = disk_of()
    disk = ProcessDisk(memory)
    file = disk.open(PATH, create=True)
    disk.crash_at(1, place, memory.process_kill)

    with pytest.raises(OSError, match="the process was killed"):
        file.write(0, b"abcd")
    with pytest.raises(OSError, match="the process was killed"):
        file.write(0, b"later")
    with pytest.raises(OSError, match="the process was killed"):
        disk.remove(PATH)
    with pytest.raises(OSError, match="the process was killed"):
        disk.rename(PATH, PATH + "2")

    assert left == memory.open(PATH).read(0, 100)


async def test_changes_are_counted_and_reads_are_not() -> None:
    """The end comes at the change that was chosen."""
    memory = disk_of()
    disk = ProcessDisk(memory)
    file = disk.open(PATH, create=True)
    before = disk.operations
    disk.crash_at(3, Place.BEFORE, memory.process_kill)
    file.write(0, b"ab")
    assert b"ab" == file.read(0, 2)
    await disk.sync(file)
    assert disk.operations == before + 2
    with pytest.raises(OSError, match="the process was killed"):
        disk.remove(PATH)

    assert memory.exists(PATH)


def test_rot_comes_right_before_a_change_or_not_at_all() -> None:
    """Once; a process that is over is not damaged any more."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    disk = ProcessDisk(memory)
    seen: list[int] = []
    disk.rot_at(2, lambda: seen.append(disk.operations))
    for name in "abc":
        disk.open(f"{ROOT}/{name}", create=True)
    disk.rot_now()
    assert [2] == seen
    disk.rot_at(1, lambda: seen.append(0))
    disk.die()
    disk.rot_now()
    assert [2] == seen


def test_a_process_ends_among_blocks_that_are_written_one_by_one() -> None:
    """The blocks that were written before the end stay."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    memory.reserves_blocks = False
    disk = ProcessDisk(memory, reserves_blocks=False)
    memory.on_reserving = disk.reserving
    file = disk.open(f"{ROOT}/a", create=True)
    disk.crash_at(1, Place.MIDDLE, memory.process_kill)
    with pytest.raises(OSError, match="closed"):
        file.allocate(10 * BLOCK_SIZE)

    assert BLOCKS_WRITTEN * BLOCK_SIZE == memory.usage("/").used
