"""The files of a log as they are: whatever their lengths, names and gaps."""

from __future__ import annotations

import pytest

from small_store import ROOT
from timermq.repair.finding import Finding, Step
from timermq.repair.segment_row import SegmentRow, size_of
from timermq.repair.store_rule import Severity, StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk
from unit.repair.small_checks import put, stopped
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE

SIZE = 100


def row(**sizes: int) -> SegmentRow:
    """A row with files of these names and lengths; ``s7`` is the segment that begins at 700."""
    disk = MemoryDisk()
    disk.make_dirs(f"{ROOT}/log/directory")
    for name, size in sizes.items():
        known = name[1:].isdigit() and name[0] == "s"
        put(disk, f"log/{int(name[1:]) * SIZE:020d}" if known else f"log/{name}", bytes(size))
    return SegmentRow(disk, ROOT, "log", SIZE)


def findings(found: SegmentRow, subject: object = None, *, at_end: bool = True) -> list[Finding]:
    """What is wrong with the files of a row."""
    return list(found.find_files(Step.RESTORE_LENGTH, subject, at_end=at_end))


def test_only_names_of_segments_are_segments() -> None:
    """Directories are none, and numbers that no segment begins at are strangers."""
    disk = MemoryDisk()
    disk.make_dirs(f"{ROOT}/log/directory")
    for name in ("00000000000000000100", "00000000000000000200", "00000000000000000150", "other"):
        put(disk, f"log/{name}", b"x")
    found = SegmentRow(disk, ROOT, "log", SIZE)

    assert [one.start for one in found.segments] == [100, 200]
    assert found.strangers == ["log/00000000000000000150", "log/other"]
    assert (found.start, found.end) == (100, 300)


def test_an_empty_row_has_no_end() -> None:
    """A store that no message has come to."""
    assert (row().start, row().end, list(row().starts()), findings(row())) == (0, 0, [], [])


def test_sound_files_have_no_findings() -> None:
    """Whole segments, one behind the other."""
    assert findings(row(s1=SIZE, s2=SIZE)) == []


def test_each_odd_file_is_found_by_its_place() -> None:
    """Missing, short and long ones are given back their length; strangers go to the backup."""
    found = findings(row(s1=SIZE, s2=7, s4=SIZE + 1, s5=SIZE, odd=3))

    assert [(one.file[-3:], one.offset, one.found, one.step) for one in found] == [
        ("odd", 0, "odd", Step.BACK_UP_FILE),
        ("200", 7, "7 bytes", Step.RESTORE_LENGTH),
        ("300", 0, "no file", Step.RESTORE_LENGTH),
        ("400", 101, "101 bytes", Step.RESTORE_LENGTH),
    ]
    assert [one.subject for one in found] == ["log/odd", 200, 300, 400]
    assert {one.rule for one in found} == {StoreRule.FILE_SIZE}


def test_the_step_of_a_queue_is_done_to_the_queue() -> None:
    """Not to one of its files."""
    (found,) = findings(row(s0=7), ("T", 0))

    assert found.subject == ("T", 0)


@pytest.mark.parametrize(
    ("sizes", "at_end", "is_note"),
    [
        ({"s0": SIZE, "s1": 0}, True, True),
        ({"s0": SIZE, "s1": 0}, False, False),
        ({"s0": 0, "s1": SIZE}, True, False),
        ({"s0": SIZE, "s1": 1}, True, False),
    ],
)
def test_a_newest_file_without_length_was_being_made(
    sizes: dict[str, int], *, at_end: bool, is_note: bool
) -> None:
    """A kill leaves it so, and the next start goes on with it."""
    (found,) = findings(row(**sizes), at_end=at_end)

    assert (found.severity is Severity.NOTE) == is_note
    assert (found.step is Step.NOTHING) == is_note


def test_bytes_are_read_as_far_as_there_are_any() -> None:
    """Of a missing or empty segment none."""
    found = row(s0=SIZE, s1=30, s3=0)

    assert [len(found.read(at, 50)) for at in (0, 80, 110, 250, 300)] == [50, 20, 20, 0, 0]
    found.close()


@pytest.mark.parametrize(
    ("position", "is_there"),
    [(POSITIONS[0], True), (POSITIONS[6], True), (POSITIONS[6] + 1, False), (9_999, False),
     (POSITIONS[4] + RECORD_SIZE, False), (POSITIONS[11] + RECORD_SIZE, False)],
)  # fmt: skip
def test_a_record_stands_where_one_was_written(position: int, *, is_there: bool) -> None:
    """A blank, zeros and the middle of a record are none."""
    found = SegmentRow(stopped(), ROOT, "commitlog", 1024)

    assert found.has_record_at(position) == is_there
    found.close()


def test_a_missing_file_has_no_size() -> None:
    """So it is told from a file that is there."""
    disk = MemoryDisk()
    put(disk, "a", b"123")

    assert (size_of(disk, f"{ROOT}/a"), size_of(disk, f"{ROOT}/b")) == (3, 0)
