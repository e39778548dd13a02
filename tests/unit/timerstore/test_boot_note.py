"""Tests of the note of the boot."""

from __future__ import annotations

import errno

import pytest

from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.boot_note import NAME, BootNote, remove_boot_note, write_boot_note

ROOT = "/store"
PATH = f"{ROOT}/{NAME}"


@pytest.fixture(name="disk")
def fixture_disk() -> MemoryDisk:
    """A disk with the store's directory."""
    disk = MemoryDisk()
    disk.make_dirs(ROOT)
    return disk


def test_a_kill_keeps_the_boot_and_a_power_cut_ends_it(disk: MemoryDisk) -> None:
    """Durably noted it outlasts the power cut, and says that there was one."""
    write_boot_note(disk, ROOT, 1234, durably=True)
    disk.process_kill()
    noted = BootNote.read(disk, ROOT)
    assert noted.log_end == 1234
    assert noted.is_of_this_boot(disk, ROOT)

    disk.power_cut()
    after = BootNote.read(disk, ROOT)
    assert after == noted
    assert not after.is_of_this_boot(disk, ROOT)


def test_a_note_that_is_not_durable_may_be_gone(disk: MemoryDisk) -> None:
    """Then nothing is known, as without one."""
    write_boot_note(disk, ROOT, 1, durably=False)
    disk.power_cut()

    assert BootNote.read(disk, ROOT) == BootNote()
    assert not BootNote().is_of_this_boot(disk, ROOT)


@pytest.mark.parametrize("bit", range(8 * len(BootNote("boot 0", 77).encode())))
def test_a_flipped_bit_says_nothing(disk: MemoryDisk, bit: int) -> None:
    """The checksum finds any flipped bit, and the note counts as absent."""
    write_boot_note(disk, ROOT, 77, durably=False)
    file = disk.open(PATH)
    file.write(bit // 8, bytes([file.read(bit // 8, 1)[0] ^ 1 << bit % 8]))

    assert BootNote.read(disk, ROOT) == BootNote()


@pytest.mark.parametrize("text", [b"", b"\n", b"a\n\n", b"a\n1", b"a\n99999999999999999999\n0\n"])
def test_what_is_no_note(text: bytes) -> None:
    """A text that is no note counts as an absent one."""
    assert BootNote.decode(text) == BootNote()


def test_a_shorter_note_takes_the_place_of_a_longer_one(disk: MemoryDisk) -> None:
    """Nothing of the old one is left."""
    for log_end in (10**12, 5):
        write_boot_note(disk, ROOT, log_end, durably=False)

    assert BootNote.read(disk, ROOT).log_end == 5


def test_without_room_the_old_note_stays(disk: MemoryDisk) -> None:
    """No start fails for want of it."""
    full = FaultyDisk(disk, ROOT)
    full.plan = FaultRules(FaultRule(operations=[Operation.WRITE], fault=Fault(errno.ENOSPC)))
    write_boot_note(full, ROOT, 5, durably=False)

    assert BootNote.read(disk, ROOT) == BootNote()


def test_it_is_removed(disk: MemoryDisk) -> None:
    """A missing one is fine."""
    write_boot_note(disk, ROOT, 5, durably=False)
    remove_boot_note(disk, ROOT)
    remove_boot_note(disk, ROOT)

    assert not disk.exists(PATH)
