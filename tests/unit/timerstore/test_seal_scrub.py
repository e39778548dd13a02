"""A served log, compared with its seals a piece at a time."""

from __future__ import annotations

import errno

import pytest
from structlog.testing import capture_logs

from timermq.simulator.disks.fault_plan import Access, Fault, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_reader import remove_seals
from timermq.timerstore.seal_scrub import BLOCK_SIZE, Scrubbed, SealScrub
from unit.timerstore.sealed_log import (
    LOG,
    SEGMENT_SIZE,
    SIZE,
    WRITTEN,
    flush,
    opened,
    rot,
    sector_of,
    written_log,
)

AT = 5 * SECTOR_SIZE + 8


def scrub_of(disk: MemoryDisk) -> tuple[SealScrub, list[int]]:
    """The scrub of the log on a disk, and the sectors that it tells of."""
    told: list[int] = []
    return SealScrub(opened(disk), told.extend), told


def passed(scrub: SealScrub) -> list[Scrubbed]:
    """The pieces of a whole pass."""
    scrub.begin()
    at, end, found = scrub.start, scrub.end, list[Scrubbed]()
    while at < end:
        found.append(scrub.step(at, end))
        at = found[-1].at
    return found


def test_a_pass_reads_each_byte_once() -> None:
    """A piece ends where its segment does; sound bytes stay as they are."""
    scrub, told = scrub_of(written_log())
    pieces = passed(scrub)

    assert [one.at for one in pieces] == [SEGMENT_SIZE, SIZE]
    assert sum(one.size for one in pieces) == SIZE
    assert (sum(one.damaged for one in pieces), told) == (0, [])


def test_a_damaged_word_is_counted_and_put_right() -> None:
    """The readers of the log need not be told."""
    disk = written_log()
    rot(disk, AT, bytes(4))
    scrub, told = scrub_of(disk)
    piece = passed(scrub)[0]

    assert (piece.damaged, piece.repaired, told) == (1, 1, [])
    assert opened(disk).read(AT, 4) == WRITTEN[AT : AT + 4]


def test_what_stays_damaged_is_told_by_its_place() -> None:
    """To the readers of the log and to the operator, in each pass."""
    disk = written_log()
    rot(disk, AT, bytes(40))
    scrub, told = scrub_of(disk)
    with capture_logs() as lines:
        piece = passed(scrub)[0]

    assert (piece.damaged, piece.repaired, told) == (1, 0, [sector_of(AT)])
    assert [(one["event"], one["offset"]) for one in lines] == [("damaged sector", sector_of(AT))]


@pytest.mark.parametrize("at", [SIZE, SIZE + 5, 9 * SEGMENT_SIZE])
def test_behind_the_end_there_is_no_piece(at: int) -> None:
    """The pass ends, whatever position an earlier process has noted."""
    scrub, _ = scrub_of(written_log())

    assert scrub.step(at, SIZE) == Scrubbed(at=SIZE)


def test_what_is_cleaned_meanwhile_is_passed_over() -> None:
    """The pass goes on at the oldest segment that is left."""
    log = opened(written_log())
    left = SealScrub(log, lambda _: None)
    log.delete_before(SEGMENT_SIZE)

    assert left.start == SEGMENT_SIZE
    assert left.step(0, SIZE).size == SIZE - SEGMENT_SIZE


def test_a_log_without_seals_is_sealed_as_it_is() -> None:
    """From then on damage is found; what was there before counts as good."""
    disk = written_log()
    remove_seals(disk, LOG)
    rot(disk, AT, bytes(40))
    log = opened(disk)
    assert sum(one.damaged for one in passed(SealScrub(log, lambda _: None))) == 0
    flush(log)
    rot(disk, AT + SECTOR_SIZE, bytes(40))
    again, told = scrub_of(disk)
    passed(again)

    assert told == [sector_of(AT + SECTOR_SIZE)]


def test_a_doubt_is_settled_by_the_stretch_around_it() -> None:
    """What was put right by the look was not as written either."""
    disk = written_log()
    rot(disk, AT, bytes(4))
    scrub, _ = scrub_of(disk)

    assert scrub.is_sound(SEGMENT_SIZE, SEGMENT_SIZE + 9)
    assert not scrub.is_sound(AT + 2 * SECTOR_SIZE, AT + 2 * SECTOR_SIZE + 1)
    assert scrub.is_sound(AT, AT + 9)
    assert scrub.is_sound(9 * SEGMENT_SIZE, 9 * SEGMENT_SIZE + 1)


def test_the_whole_log_is_sound_or_not() -> None:
    """The answer is about what was found, not about what is left."""
    disk = written_log()
    rot(disk, SIZE - 8, bytes(4))
    scrub, _ = scrub_of(disk)

    assert not scrub.is_all_sound()
    assert scrub.is_all_sound()


def unreadable(block: int, error: int) -> SealScrub:
    """A scrub of a log with a block that cannot be read, by its start in the first segment."""

    def plan(access: Access) -> Fault | None:
        is_there = access.offset < block + BLOCK_SIZE and block < access.offset + access.size
        is_log = access.path == f"{LOG}/{0:020d}"
        return Fault(error) if is_log and is_there and access.operation is Operation.READ else None

    return SealScrub(opened(FaultyDisk(written_log(), "/store", plan)), lambda _: None)


def test_a_block_that_cannot_be_read_is_told_by_its_place() -> None:
    """In a map it would end the process; the next pass may be able to read it."""
    block = 2 * BLOCK_SIZE
    scrub = unreadable(block, errno.EIO)
    with capture_logs() as lines:
        pieces = passed(scrub)

    assert [one.damaged for one in pieces] == [1, 0]
    assert scrub.unread == [(block, block + BLOCK_SIZE)]
    assert lines[0]["offsets"] == [block]
    assert scrub.is_unread(block + BLOCK_SIZE - 1, SIZE)
    assert not scrub.is_unread(block + BLOCK_SIZE, SIZE)
    scrub.begin()
    assert not scrub.is_unread(0, SIZE)


def test_a_disk_without_files_to_open_is_no_damage() -> None:
    """The scrub waits, and goes on from there."""
    scrub = unreadable(0, errno.EMFILE)

    with pytest.raises(OSError, match=r"Too many open files"):
        scrub.step(0, SIZE)
    assert scrub.unread == []
