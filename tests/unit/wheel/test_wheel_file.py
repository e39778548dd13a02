"""The wheel's file: runs, lengths, replacement."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from descriptors import open_count
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.os_disk import OsDisk
from timermq.wheel import TimerWheel
from timermq.wheel.slot import SLOT, SLOT_DTYPE
from timermq.wheel.wheel_file import GAP_SIZE, DirtySlots, WheelFile, copy_runs

PATH = "/store/timerwheel"
NEAR = GAP_SIZE // SLOT.size


def make_disk() -> MemoryDisk:
    """A disk with the store's directory."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def ring(count: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """A ring whose slots hold their index as time."""
    slots = np.zeros(count, SLOT_DTYPE)
    slots["time"] = np.arange(count)
    return slots


def test_near_slots_make_one_run_with_the_gap() -> None:
    """Slots up to 4 KiB apart are written together, what lies between included."""
    slots = ring(NEAR + 1)
    runs = copy_runs(slots, np.array([0, NEAR]))

    assert ((0, slots.tobytes()),) == runs


def test_far_slots_make_two_runs() -> None:
    """Slots further apart are written separately."""
    slots = ring(NEAR + 2)
    runs = copy_runs(slots, np.array([0, NEAR + 1]))

    assert [(0, 32), ((NEAR + 1) * 32, 32)] == [(offset, len(data)) for offset, data in runs]


def test_no_slots_make_no_run() -> None:
    """When no slot is dirty there is nothing to write."""
    dirty = DirtySlots(runs=copy_runs(ring(4), np.array([], np.int64)), is_whole=False)

    assert dirty.size == 0


def test_a_missing_file_reads_as_zeros_and_is_not_created() -> None:
    """Opening alone leaves no file behind."""
    disk = make_disk()
    file = WheelFile(disk, PATH, 128, read_only=False)

    assert file.is_empty
    assert bytes(128) == file.read().tobytes()
    assert not disk.exists(PATH)


def test_an_empty_file_is_as_good_as_none() -> None:
    """A file of length zero holds no slots."""
    disk = make_disk()
    disk.open(PATH, create=True)

    assert WheelFile(disk, PATH, 128, read_only=True).is_empty


def test_a_longer_file_is_refused() -> None:
    """A wheel of a larger ring is not opened, and not touched."""
    disk = make_disk()
    disk.open(PATH, create=True).write(0, bytes(160))

    with pytest.raises(StoreFormatError) as caught:
        WheelFile(disk, PATH, 128, read_only=False)

    assert str(caught.value) == f"{PATH}: at 160: expected a wheel of 128 bytes, found 160"
    assert disk.open(PATH).size() == 160


def test_a_shorter_file_is_as_good_as_none() -> None:
    """It was cut short, or is of a smaller ring: nothing in it counts."""
    disk = make_disk()
    disk.open(PATH, create=True).write(0, b"x" * 96)
    file = WheelFile(disk, PATH, 128, read_only=False)

    assert file.is_empty
    assert not file.read().view("u1").any()


def test_a_whole_ring_replaces_the_file_durably() -> None:
    """After the write the new ring stands there alone, also after a power cut."""
    disk = make_disk()
    old = disk.open(PATH, create=True)
    old.write(0, b"\x01" * 128)
    file = WheelFile(disk, PATH, 128, read_only=False)
    slots = ring(4)
    file.write(DirtySlots(runs=copy_runs(slots, np.array([1, 2, 3])), is_whole=True))
    disk.power_cut()

    assert slots.tobytes() == WheelFile(disk, PATH, 128, read_only=False).read().tobytes()
    assert disk.list_dir("/store") == ["timerwheel"]


def test_slots_are_repaired_in_place() -> None:
    """A write that is not whole leaves the other slots alone."""
    disk = make_disk()
    file = WheelFile(disk, PATH, 128, read_only=False)
    file.write(DirtySlots(runs=((0, b"\x01" * 128),), is_whole=True))
    file.write(DirtySlots(runs=((32, b"\x02" * 32),), is_whole=False))

    assert b"\x01" * 32 + b"\x02" * 32 + b"\x01" * 64 == file.file.read(0, 128)


@pytest.mark.parametrize("operation", [Operation.ALLOCATE, Operation.WRITE, Operation.SYNC])
def test_a_ring_that_finds_no_room_leaves_nothing(tmp_path: Path, operation: Operation) -> None:
    """However often it is tried; with room again it is written."""
    rule = FaultRule(operations=[operation], fault=Fault(errno.ENOSPC), count=5)
    disk = FaultyDisk(OsDisk(), str(tmp_path), FaultRules(rule))
    file = WheelFile(disk, f"{tmp_path}/timerwheel", 128, read_only=False)
    dirty = DirtySlots(runs=((32, ring(2).tobytes()),), is_whole=True)
    before = open_count()
    for _ in range(5):
        with pytest.raises(OSError, match="No space left"):
            file.write(dirty)
    left = (open_count(), disk.list_dir(str(tmp_path)))
    file.write(dirty)
    written = (open_count(), file.file.read(0, 128))
    file.close()

    assert (before, []) == left
    assert (before + 1, bytes(32) + ring(2).tobytes() + bytes(32)) == written


def test_a_new_file_that_cannot_be_opened_again_is_written_again(tmp_path: Path) -> None:
    """Until then the old one is open, for the sync."""
    disk = FaultyDisk(OsDisk(), str(tmp_path))
    file = WheelFile(disk, f"{tmp_path}/timerwheel", 128, read_only=False)
    whole = DirtySlots(runs=((0, ring(4).tobytes()),), is_whole=True)
    file.write(whole)
    refused = FaultRule(operations=[Operation.OPEN], fault=Fault(errno.EMFILE), skip=1)
    disk.plan = FaultRules(refused)
    before = open_count()
    with pytest.raises(OSError, match="Too many open files"):
        file.write(whole)
    disk.sync_now(file.file)
    file.write(whole)
    after = open_count()
    disk.sync_now(file.file)
    file.close()

    assert before == after


def test_a_wheel_that_cannot_be_opened_leaves_no_file_open(tmp_path: Path) -> None:
    """It has another length, or cannot be read."""
    path = tmp_path / "timerwheel"
    path.write_bytes(bytes(128))
    rule = FaultRule(operations=[Operation.READ])
    disk = FaultyDisk(OsDisk(), str(tmp_path), FaultRules(rule))
    before = open_count()
    with pytest.raises(OSError, match="Input/output error"):
        TimerWheel.open(disk, str(path), slots_total=2)
    with pytest.raises(StoreFormatError):
        TimerWheel.open(disk, str(path), slots_total=1)

    assert before == open_count()
