"""Tests of readings of the commit log that go on behind damage."""

from __future__ import annotations

import pytest

from small_store import HOST, SEGMENT_SIZE, message
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.commit_log import CommitLog, LogWrite
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.record import blank_record, encode_record
from timermq.timerstore.record_layout import MAGIC_AT, PHY_OFFSET_AT

DIRECTORY = "/store/commitlog"
POSITIONS = [*range(0, 1000, 100), 1024, 1124]


def record(phy_offset: int) -> bytes:
    """A record of 100 bytes."""
    return encode_record(
        message("x" * 8), queue_offset=0, phy_offset=phy_offset, store_ms=5, store_host=HOST
    )


def damaged(*changes: tuple[int, bytes]) -> CommitLog:
    """A log of ten records and a blank, and two in a second segment, with some bytes changed."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    log = CommitLog(disk, DIRECTORY, SEGMENT_SIZE)
    first = b"".join(record(at) for at in range(0, 1000, 100)) + blank_record(24)
    log.append([0, 1024], [LogWrite(0, first), LogWrite(1024, record(1024) + record(1124))])
    for at, data in changes:
        segment = log.segment_at(at)
        assert segment is not None
        segment.file.write(at - segment.start, data)
    return log


def read(log: CommitLog, first: int = 0, end: int | None = None) -> tuple[list[int], list[Hole]]:
    """Positions of the records, each of which is as it was, and the holes."""
    reading = LogReading(log, first, end=end, purpose="a test")
    found = list(reading)
    assert all(data == record(at) for at, data in found)
    return [at for at, _ in found], reading.holes


def test_a_sound_log_has_no_holes() -> None:
    """All records, up to a position if one is given."""
    assert read(damaged()) == (POSITIONS, [])
    assert read(damaged(), 300, 500) == ([300, 400], [])
    assert read(damaged(), 1124) == ([1124], [])
    assert read(damaged(), 1224) == ([], [])


@pytest.mark.parametrize("at", [2, MAGIC_AT, MAGIC_AT + 3])
def test_a_record_with_one_damaged_field_is_given_as_it_was(at: int) -> None:
    """Its size or its magic: the rest says what it was."""
    assert len(record(0)) == 100
    assert read(damaged((300 + at, b"\x55"))) == (POSITIONS, [])


@pytest.mark.parametrize(
    ("at", "size", "lost", "hole", "reaches_end"),
    [
        (300 + PHY_OFFSET_AT, 8, [300], (300, 400), False),
        (350, 200, [300, 400, 500], (300, 600), False),
        (0, 60, [0], (0, 100), False),
        (950, 50, [900], (900, 1000), False),
        (950, 74, [900], (900, 1024), True),
        (1150, 20, [1124], (1124, 1224), True),
    ],
)
def test_what_is_lost_is_a_hole(
    at: int, size: int, lost: list[int], hole: tuple[int, int], *, reaches_end: bool
) -> None:
    """What is damaged is told as a hole, and everything else is read."""
    positions, holes = read(damaged((at, bytes(size))))

    assert positions == [one for one in POSITIONS if one not in lost]
    assert [(one.position, one.end, one.reaches_segment_end) for one in holes] == [
        (*hole, reaches_end)
    ]


def test_several_holes() -> None:
    """Each of several holes is told, and what stands between them is read."""
    positions, holes = read(damaged((210, bytes(50)), (710, bytes(50)), (1030, bytes(60))))

    assert positions == [0, 100, *range(300, 700, 100), 800, 900, 1124]
    assert [one.position for one in holes] == [200, 700, 1024]
