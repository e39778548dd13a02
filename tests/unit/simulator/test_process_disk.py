"""The disk as a process has it: its end at a chosen change."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.process_disk import Place, ProcessDisk

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
