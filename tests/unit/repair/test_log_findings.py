"""The findings of the walk over the commit log: what each says, and how bad it is."""

from __future__ import annotations

import pytest

from small_store import ROOT, SEGMENT_SIZE
from timermq.repair.finding import Step
from timermq.repair.log_findings import (
    NO_UNIT,
    Run,
    early_finding,
    early_unit_finding,
    gap_finding,
    hole_finding,
    lost_end_finding,
    lost_unit_finding,
    misfit_finding,
    repair_finding,
    tail_findings,
    unit_finding,
    unit_text,
)
from timermq.repair.log_survey import LogSurvey
from timermq.repair.queue_sequence import Gap, Misfit
from timermq.repair.record_repair import RecordRepair
from timermq.repair.segment_row import SegmentRow
from timermq.repair.store_rule import Severity
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reach import LogReach
from unit.repair.small_checks import put, stopped
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE

END = POSITIONS[11] + RECORD_SIZE


def row_and_survey(tail: bytes = b"") -> tuple[SegmentRow, LogSurvey]:
    """A survey that is done, of a log with bytes behind its last record."""
    disk = stopped()
    if tail:
        start = END - END % SEGMENT_SIZE
        put(disk, f"commitlog/{start:020d}", tail, END - start)
    row = SegmentRow(disk, ROOT, "commitlog", SEGMENT_SIZE)
    survey = LogSurvey(row, -1)
    list(survey)
    row.close()
    return row, survey


@pytest.mark.parametrize(
    ("tail", "stated_end", "is_stopped", "expected"),
    [
        (b"", END, True, []),
        (b"", END + 9, True, [(Step.CORRECT_REGISTER, Severity.LOST)]),
        (b"?" * 20, END, True, [(Step.CUT_TAIL, Severity.LOST)]),
        (b"?" * 20, END, False, [(Step.NOTHING, Severity.NOTE)]),
        (
            b"?" * 20,
            END + 9,
            False,
            [(Step.CORRECT_REGISTER, Severity.LOST), (Step.CUT_TAIL, Severity.LOST)],
        ),
    ],
)
def test_what_stands_behind_the_end_is_damage_unless_a_kill_explains_it(
    tail: bytes, stated_end: int, *, is_stopped: bool, expected: list[tuple[Step, Severity]]
) -> None:
    """A write that was cut off is repaired by each start."""
    row, survey = row_and_survey(tail)
    found = list(tail_findings(row, survey, stated_end=stated_end, last_exit_ok=is_stopped))

    assert [(one.step, one.severity) for one in found] == expected
    assert {one.offset for one in found} <= {END % SEGMENT_SIZE}


def test_a_hole_is_told_by_its_file_and_size() -> None:
    """A lost end says how it is known that more was there."""
    row, _ = row_and_survey()
    hole = Hole(POSITIONS[6], POSITIONS[7], "torn", False)
    plain = hole_finding(row, hole)
    by_kill = lost_end_finding(row, hole, LogReach(known_to=END, was_killed=True))
    by_start = lost_end_finding(row, hole, LogReach(known_to=END, was_killed=False))

    assert (plain.file[-4:], plain.offset) == ("1024", POSITIONS[6] - SEGMENT_SIZE)
    assert plain.found == f"{RECORD_SIZE} bytes that are none: torn"
    assert "the process was killed" in by_kill.expected
    assert "the last start made them durable" in by_start.expected
    assert by_kill.found.endswith("their messages are lost")


def test_a_repair_says_what_the_head_states_and_where_it_belongs() -> None:
    """One of a transaction is told as such: no queue holds it."""
    row, _ = row_and_survey()
    for is_queued in (True, False):
        misfit = Misfit(POSITIONS[6], RECORD_SIZE, "U", 1, 9, is_queued)
        found = repair_finding(row, RecordRepair(misfit, "T", 0, 6))
        assert found.expected == "the record of T/0 at 6"
        assert found.found.startswith("U/1 at 9")
        assert ("transaction" in found.found) != is_queued


def test_places_of_queues_are_bytes_of_their_units() -> None:
    """Twenty a unit, and as many things as offsets."""
    gap = gap_finding(Gap("T", 0, 6, 9, 0, 1))
    run = unit_finding(("T", 0), Run(0, 2, 4, "this", "that"))

    assert (gap.file, gap.offset, gap.count) == ("consumequeue/T/0", 120, 3)
    assert (run.offset, run.count, run.expected, run.found) == (40, 2, "this", "that")


def test_units_are_told_in_words() -> None:
    """A missing one has words of its own."""
    assert unit_text(None) == NO_UNIT
    assert unit_text((1, 2, 3)) == "a unit of position 1, size 2, tags code 3"
    lost = lost_unit_finding(("T", 0), 12, (END, 9, 0), END)
    early = early_unit_finding(("T", 0), 1, None, 500)

    assert lost.rule.name == "RECORD_MISSING"
    assert f"no unit behind {END}" in lost.expected
    assert (early.found, early.expected) == (
        NO_UNIT,
        "units of records before 500, where the log begins",
    )


def test_what_no_step_can_help_is_told_all_the_same() -> None:
    """A record in no queue is a note; an early delivery broke a promise."""
    row, _ = row_and_survey()
    misfit = misfit_finding(row, Misfit(POSITIONS[6], RECORD_SIZE, "U", 1, 9))
    early = early_finding(row, POSITIONS[6], deliver_ms=9, store_ms=8)

    assert (misfit.step, misfit.severity) == (Step.NOTHING, Severity.NOTE)
    assert (early.step, early.severity) == (Step.NOTHING, Severity.LOST)
    assert early.rule.name == "EARLY"
