"""The seals of a log, as they are read: what they cover, and what they find damaged."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.seal_page import PAGE_SIZE, SECTOR_SIZE, STRETCH_SIZE
from timermq.timerstore.seal_reader import SealReader, remove_seals, seals_directory
from unit.timerstore.sealed_log import LOG, SEGMENT_SIZE, SIZE, WRITTEN, rot, written_log

SECOND = SEGMENT_SIZE
"""Start of the second segment."""


def reader(disk: MemoryDisk) -> SealReader:
    """The seals of the log on a disk."""
    return SealReader(disk, LOG)


def damaged(disk: MemoryDisk, first: int, end: int, start: int = 0) -> list[int]:
    """Damaged sectors of a part of a segment."""
    file = disk.open(f"{LOG}/{start:020d}", read_only=True)
    return reader(disk).damaged(start, file, first, end)


def test_seals_stand_where_rocketmq_does_not_look() -> None:
    """Beside the directory of the log, under the root of the store."""
    assert seals_directory("/store/commitlog") == "/store/timermq-seals/commitlog"


def test_the_sealed_end_is_that_of_the_newest_page() -> None:
    """Within the last sector; none behind a place where no page seals anything."""
    seals = reader(written_log())

    assert seals.sealed_end(0, 0) == SEGMENT_SIZE
    assert seals.sealed_end(SECOND, SECOND) == SIZE
    assert seals.sealed_end(SECOND, SECOND + 2 * STRETCH_SIZE) is None
    assert seals.sealed_end(9 * SEGMENT_SIZE, 9 * SEGMENT_SIZE) is None


@pytest.mark.parametrize(
    ("first", "end", "found"),
    [
        (0, SEGMENT_SIZE, [512, 1024]),
        (512, 513, [512]),
        (1023, 1024, [512]),
        (0, 512, []),
        (1024, 1025, [1024]),
        (1536, 4096, []),
    ],
)
def test_sectors_are_wanted_that_touch_the_part(first: int, end: int, found: list[int]) -> None:
    """Those before it and behind it may be damaged as well."""
    disk = written_log()
    rot(disk, 600, bytes(40))
    rot(disk, 1100, bytes(40))

    assert damaged(disk, first, end) == found


def test_a_page_that_is_damaged_accuses_no_sector() -> None:
    """What has no seal counts as good."""
    disk = written_log()
    rot(disk, 600, bytes(40))
    rot(disk, STRETCH_SIZE + 600, bytes(40))
    disk.rot(reader(disk).path(0), 3, b"\x77")

    assert damaged(disk, 0, SEGMENT_SIZE) == [STRETCH_SIZE + 512]


def test_without_a_file_of_seals_nothing_is_said() -> None:
    """RocketMQ has written the log, or an operator has removed them."""
    disk = written_log()
    rot(disk, 600, bytes(40))
    remove_seals(disk, LOG)
    seals, file = reader(disk), disk.open(f"{LOG}/{0:020d}", read_only=True)

    assert damaged(disk, 0, SEGMENT_SIZE) == []
    assert seals.sealed_end(0, 0) is None
    assert not seals.prove(0, 0, 1)
    assert seals.before(0, file, 512) is None


def test_bytes_are_proved_as_far_as_pages_cover_them() -> None:
    """Up to the last byte that was written, and not one further."""
    seals = reader(written_log())

    assert seals.prove(0, 0, SEGMENT_SIZE)
    assert seals.prove(SECOND, SECOND, SIZE)
    assert not seals.prove(SECOND, SECOND, SIZE + 1)


def test_a_flipped_bit_of_a_sector_is_known_and_larger_damage_is_not() -> None:
    """The seal names one word; of more nothing can be said."""
    disk = written_log()
    rot(disk, 700, bytes([WRITTEN[700] ^ 4]))
    rot(disk, 1100, bytes(40))
    seals, file = reader(disk), disk.open(f"{LOG}/{0:020d}", read_only=True)

    assert seals.before(0, file, 512) == WRITTEN[512:1024]
    assert seals.before(0, file, 1024) is None


def test_the_last_sector_is_known_as_far_as_it_is_sealed() -> None:
    """What stands behind the end of the log is no part of it."""
    disk = written_log()
    last = SIZE - SIZE % SECTOR_SIZE
    rot(disk, last + 9, bytes([WRITTEN[last + 9] ^ 1]))
    file = disk.open(f"{LOG}/{SECOND:020d}", read_only=True)

    assert reader(disk).before(SECOND, file, last) == WRITTEN[last:]


def test_a_page_is_read_by_its_number() -> None:
    """Behind the last page there is none, nor where zeros stand."""
    disk = written_log()
    seals = reader(disk)
    pages = disk.open(seals.path(SECOND), read_only=True)
    first, last = (seals.read_page(pages, SECOND, number) for number in (0, 1))

    assert first is not None
    assert last is not None
    assert (first.start, first.covered) == (SECOND, STRETCH_SIZE)
    assert last.covered == SIZE - SECOND - STRETCH_SIZE
    assert seals.read_page(pages, SECOND, pages.size() // PAGE_SIZE) is None
