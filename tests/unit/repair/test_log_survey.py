"""The walk over the whole log that goes on behind damage: records, holes and the tail."""

from __future__ import annotations

from small_store import ROOT, SEGMENT_SIZE
from timermq.repair.log_survey import Found, LogSurvey
from timermq.repair.segment_row import SegmentRow
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.log_holes import Hole
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE, Rig

END = POSITIONS[11] + RECORD_SIZE
"""End of a log of twelve records, in its third segment."""
BLANK_AT = POSITIONS[4] + RECORD_SIZE
"""Where the records of the first segment end."""


def stored() -> MemoryDisk:
    """A disk with twelve records."""
    rig = Rig()
    rig.kill()
    return rig.disk


def rot(disk: MemoryDisk, at: int, data: bytes) -> None:
    """Let bytes of the log be others."""
    start = at // SEGMENT_SIZE * SEGMENT_SIZE
    disk.rot(f"{ROOT}/commitlog/{start:020d}", at - start, data)


def walked(disk: MemoryDisk, known_to: int = -1) -> tuple[LogSurvey, list[int], list[Hole]]:
    """A survey that is through, the positions of its records, and its holes."""
    row = SegmentRow(disk, ROOT, "commitlog", SEGMENT_SIZE)
    survey = LogSurvey(row, known_to)
    found = list(survey)
    row.close()
    positions = [one.position for one in found if isinstance(one, Found)]
    return survey, positions, [one for one in found if isinstance(one, Hole)]


def test_a_whole_log_has_no_holes() -> None:
    """Blanks lead to the next segment; zeros behind the last record are an empty tail."""
    survey, positions, holes = walked(stored())

    assert (positions, holes) == (POSITIONS[:12], [])
    assert (survey.end, survey.tail_is_zero) == (END, True)


def test_behind_damage_the_walk_goes_on_at_the_next_record() -> None:
    """What lies between is one hole."""
    disk = stored()
    rot(disk, POSITIONS[6], bytes(RECORD_SIZE))
    rot(disk, POSITIONS[7], bytes(RECORD_SIZE))
    survey, positions, holes = walked(disk)

    assert positions == [*POSITIONS[:6], *POSITIONS[8:12]]
    assert [(one.position, one.end) for one in holes] == [(POSITIONS[6], POSITIONS[8])]
    assert not holes[0].reaches_segment_end
    assert survey.end == END


def test_a_damaged_blank_is_a_hole_up_to_the_end_of_the_segment() -> None:
    """The next segment begins with a record, as it did."""
    disk = stored()
    rot(disk, BLANK_AT, b"?" * 8)
    _, positions, holes = walked(disk)

    assert positions == POSITIONS[:12]
    assert [(one.position, one.end) for one in holes] == [(BLANK_AT, SEGMENT_SIZE)]
    assert holes[0].reaches_segment_end


def test_a_torn_write_at_the_end_is_a_tail() -> None:
    """No record follows, so the log ends before it."""
    disk = stored()
    rot(disk, POSITIONS[11], b"?" * 8 + bytes(RECORD_SIZE - 8))
    survey, positions, holes = walked(disk)

    assert (positions, holes) == (POSITIONS[:11], [])
    assert survey.end == POSITIONS[11]
    assert survey.tail_reason
    assert not survey.tail_is_zero


def test_what_was_there_for_certain_is_no_tail() -> None:
    """The last record is lost: a hole up to where the log is known to have reached."""
    disk = stored()
    rot(disk, POSITIONS[11], bytes(RECORD_SIZE))
    survey, _, holes = walked(disk, known_to=END)

    assert [(one.position, one.end) for one in holes] == [(POSITIONS[11], END)]
    assert (survey.end, survey.tail_is_zero) == (END, True)
