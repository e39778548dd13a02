"""The scan that ends at the first thing that is no record."""

from __future__ import annotations

import pytest

from small_store import ROOT, SEGMENT_SIZE, open_store, put_bodies
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.log_scan import LogScan
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.record_layout import BODY_AT

BODY = "x" * 100
"""Five of these records fit a segment."""


def stored(count: int) -> tuple[MemoryDisk, int]:
    """A disk with so many records, and the end of their log."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, *[BODY] * count)
    return disk, store.commit_log.max_offset


def files_of(disk: MemoryDisk) -> MappedFileQueue:
    """The segments of the log, all of their bytes counted as written."""
    files = MappedFileQueue(disk, f"{ROOT}/commitlog", SEGMENT_SIZE, reserve=False, read_only=True)
    files.load()
    files.wrote = files.segments[-1].end
    return files


def test_a_blank_leads_to_the_next_segment() -> None:
    """All records are given; the scan ends in the zeros behind them."""
    disk, end = stored(8)
    scan = LogScan(files_of(disk), 0, check_crc=True)

    found = list(scan)

    assert len(found) == 8
    assert [position for position, _ in found if position % SEGMENT_SIZE == 0] == [0, SEGMENT_SIZE]
    assert scan.end == end == sum(found[-1])
    assert scan.reason != "the end of the last segment"


def test_what_was_not_written_is_not_looked_at() -> None:
    """Nothing is wrong there: the log ends where its files were written to."""
    disk, end = stored(3)
    files = files_of(disk)
    files.wrote = end
    scan = LogScan(files, 0, check_crc=True)

    assert len(list(scan)) == 3
    assert (scan.end, scan.reason) == (end, "the end of the last segment")


@pytest.mark.parametrize(("check_crc", "count"), [(True, 1), (False, 3)])
def test_a_damaged_body_ends_the_scan_that_asks_for_checksums(check_crc: bool, count: int) -> None:
    """The other scans go on: the frame of the record is whole."""
    disk, end = stored(3)
    files = files_of(disk)
    files.wrote = end
    (_, size), *_ = list(LogScan(files, 0, check_crc=True))
    disk.rot(f"{ROOT}/commitlog/{0:020d}", size + BODY_AT, b"?")
    scan = LogScan(files, 0, check_crc=check_crc)

    assert len(list(scan)) == count
    assert scan.end == count * size


def test_a_scan_begins_where_it_is_told() -> None:
    """Records before that position are not given."""
    disk, end = stored(8)
    places = [position for position, _ in LogScan(files_of(disk), 0, check_crc=True)]
    scan = LogScan(files_of(disk), places[3], check_crc=True)

    assert [position for position, _ in scan] == places[3:]
    assert scan.end == end
