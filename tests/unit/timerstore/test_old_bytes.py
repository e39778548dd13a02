"""Bytes of an earlier process: compared once, before anything relies on them."""

from __future__ import annotations

import numpy as np

from timermq.timerstore.old_bytes import OldBytes
from timermq.timerstore.seal_page import SECTOR_SIZE, STRETCH_SIZE
from timermq.timerstore.seal_reader import remove_seals
from unit.timerstore.sealed_log import (
    LOG,
    SEGMENT_SIZE,
    SIZE,
    WRITTEN,
    flush,
    opened,
    rot,
    sector_of,
    write,
    written_log,
)

AT = STRETCH_SIZE + 5 * SECTOR_SIZE + 8
"""A position in the second stretch."""
SECTOR = sector_of(AT)


def old(*damage: tuple[int, bytes], end: int = SIZE) -> OldBytes:
    """The bytes of an earlier process, some of which are damaged."""
    disk = written_log()
    for at, data in damage:
        rot(disk, at, data)
    found = OldBytes(opened(disk))
    found.begin(end)
    return found


def noise(size: int) -> bytes:
    """Bytes that differ from what was written, in more than a word."""
    return bytes(one ^ 0x5A for one in WRITTEN[AT : AT + size])


def test_a_damaged_word_is_put_right_when_it_is_read() -> None:
    """The reader gets what was written, and no sector counts as damaged."""
    found = old((AT, noise(4)))

    assert found.compare(AT, AT + 4)
    assert found.files.read(AT, 4) == WRITTEN[AT : AT + 4]
    assert found.damaged == set()


def test_a_sector_that_stays_damaged_is_refused_and_its_neighbours_are_not() -> None:
    """Whatever piece of it is asked for."""
    found = old((AT, noise(40)))

    assert not found.compare(SECTOR + SECTOR_SIZE - 1, SECTOR + 2 * SECTOR_SIZE)
    assert not found.compare(SECTOR - 1, SECTOR + 1)
    assert found.compare(SECTOR - SECTOR_SIZE, SECTOR)
    assert found.compare(SECTOR + SECTOR_SIZE, SECTOR + 2 * SECTOR_SIZE)
    assert found.damaged == {SECTOR}


def test_a_stretch_is_compared_once_until_it_is_asked_for_anew() -> None:
    """A scrub of hours later asks for it: bytes may rot meanwhile."""
    disk = written_log()
    found = OldBytes(opened(disk))
    found.begin(SIZE)
    assert found.compare(AT, AT + 1)
    rot(disk, AT, noise(40))
    assert found.compare(AT, AT + 1)
    found.compare_anew()

    assert not found.compare(AT, AT + 1)


def test_what_this_process_writes_is_not_old() -> None:
    """It is neither compared nor doubted, unless a scrub has told of damage there."""
    found = old()
    write(found.files, SIZE, bytes(2 * SECTOR_SIZE))
    at = SIZE + SECTOR_SIZE
    assert found.compare(at, at + 1)
    assert found.is_proved(at, at + 1)
    found.note([sector_of(at)])

    assert found.end == sector_of(at) + SECTOR_SIZE
    assert not found.compare(at, at + 1)


def test_proved_is_only_what_its_writer_has_sealed() -> None:
    """Without seals each record is checked by itself."""
    assert is_proved(old())
    disk = written_log()
    remove_seals(disk, LOG)
    bare = OldBytes(opened(disk))
    bare.begin(SIZE)

    assert not is_proved(bare)
    assert not bare.is_sealed(AT, AT + 1)


def is_proved(found: OldBytes) -> bool:
    """Whether a sound piece is what its writer meant."""
    assert found.compare(AT, AT + 1)
    return found.is_proved(AT, AT + 1)


def test_sealed_is_what_lies_before_the_old_end_and_is_sound() -> None:
    """What a seal covers and this process has not written over."""
    found = old((AT, noise(40)))

    assert found.is_sealed(0, 9)
    assert not found.is_sealed(AT, AT + 1)
    assert not found.is_sealed(SIZE - 1, SIZE + 1)
    assert not found.is_sealed(9 * SEGMENT_SIZE, 9 * SEGMENT_SIZE + 1)
    write(found.files, SIZE, bytes(SECTOR_SIZE))
    flush(found.files)
    assert not found.is_sealed(SIZE - 1, SIZE + 1)


def test_a_cut_forgets_damage_behind_it() -> None:
    """Of the sector that the end lies in only seals that were cut as well tell the truth."""
    for is_sealed, left in ((True, {SECTOR}), (False, set[int]())):
        found = old((AT, noise(40)))
        assert not found.compare(AT, AT + 1)
        found.cut(SECTOR + 9, is_sealed=is_sealed)
        assert (found.damaged, found.end) == (left, SECTOR + 9)
    found = old((AT, noise(40)))
    assert not found.compare(AT, AT + 1)
    found.cut(SECTOR, is_sealed=True)

    assert found.damaged == set()


def test_the_stretch_of_a_cut_is_compared_once_more() -> None:
    """Less of it was sealed than it seemed to hold."""
    disk = written_log()
    found = OldBytes(opened(disk))
    found.begin(SIZE)
    assert found.compare(AT, AT + 1)
    found.cut(SECTOR + 2 * SECTOR_SIZE, is_sealed=True)
    rot(disk, AT, noise(40))

    assert not found.compare(AT, AT + 1)


def test_damaged_pieces_are_told_by_their_index() -> None:
    """Those behind the old end are not looked at."""
    found = old((AT, noise(40)))
    positions = np.array([0, AT, SIZE + 9], np.int64)

    assert found.are_damaged(positions, np.array([10, 10, 10], np.int64)) == [1]
