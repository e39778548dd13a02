"""How far the scrub of a store has come, as the next process finds it."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.scrub_note import NOTE, ScrubNote

ROOT = "/store"
PATH = f"{ROOT}/config/timermq-scrub"
SAVED = ScrubNote(part=1, at=4096, begun_ms=7, whole_ms=5, left=2, left_now=1)


def disk_with(note: ScrubNote = SAVED) -> MemoryDisk:
    """A disk with a note."""
    disk = MemoryDisk()
    note.save(disk, ROOT)
    return disk


def test_a_note_comes_back_with_all_its_fields() -> None:
    """The directory of it is made where a store has none yet."""
    assert ScrubNote.load(disk_with(), ROOT) == SAVED


def test_a_store_without_a_note_begins_at_its_start() -> None:
    """So does one that an earlier version has written."""
    assert ScrubNote.load(MemoryDisk(), ROOT) == ScrubNote()


def test_a_later_note_replaces_the_earlier_one() -> None:
    """It is written in its place."""
    disk = disk_with()
    ScrubNote(at=1).save(disk, ROOT)

    assert ScrubNote.load(disk, ROOT) == ScrubNote(at=1)


@pytest.mark.parametrize("at", range(0, NOTE.size, 5))
def test_each_changed_byte_makes_it_no_note(at: int) -> None:
    """The scrub then does its work once more, which harms nothing."""
    disk = disk_with()
    file = disk.open(PATH)
    file.write(at, bytes([file.read(at, 1)[0] ^ 0x10]))

    assert ScrubNote.load(disk, ROOT) == ScrubNote()


@pytest.mark.parametrize("size", [0, 1, NOTE.size - 1])
def test_a_short_file_is_no_note(size: int) -> None:
    """A power cut may have left it so: the note is never synced."""
    disk = disk_with()
    disk.open(PATH).truncate(size)

    assert ScrubNote.load(disk, ROOT) == ScrubNote()


@pytest.mark.parametrize("field", ["part", "at", "begun_ms", "whole_ms", "left", "left_now"])
def test_a_negative_number_makes_it_no_note(field: str) -> None:
    """No scrub has written it, whatever its checksum says."""
    note = ScrubNote(**{field: -1})

    assert ScrubNote.load(disk_with(note), ROOT) == ScrubNote()
