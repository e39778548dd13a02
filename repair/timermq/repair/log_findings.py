"""The findings of the walk over the commit log."""

from __future__ import annotations

import attrs

from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reach import LogReach
from timermq.timerstore.queue_unit import UNIT

from .finding import Finding, Findings, Step
from .log_survey import Found, LogSurvey
from .queue_sequence import Gap, Misfit
from .queue_units import RawUnit, queue_directory
from .record_repair import RecordRepair
from .segment_row import SegmentRow
from .store_rule import Severity, StoreRule

NO_UNIT = "no unit"


@attrs.define(eq=False)
class Run:
    """Neighbouring units that are not as their records say."""

    first_py: int
    """Position of the first one's record."""
    first: int
    end: int
    expected: str
    found: str


def hole_finding(row: SegmentRow, hole: Hole) -> Finding:
    """Bytes between good records that are none."""
    file, offset = row.place_of(hole.position)
    return Finding(
        rule=StoreRule.RECORD_DAMAGED,
        file=file,
        offset=offset,
        expected=f"records up to {hole.end}, where good ones follow",
        found=f"{hole.size} bytes that are none: {hole.reason}",
        step=Step.FILL_HOLE,
        subject=hole,
    )


def lost_end_finding(row: SegmentRow, hole: Hole, reach: LogReach) -> Finding:
    """The finding about the lost end of the log, where nothing good follows."""
    how = "the process was killed" if reach.was_killed else "the last start made them durable"
    finding = hole_finding(row, hole)
    return attrs.evolve(
        finding,
        expected=f"records up to {hole.end}, which were there: {how}",
        found=f"{finding.found}; their messages are lost",
    )


def tail_findings(
    row: SegmentRow, survey: LogSurvey, *, stated_end: int, last_exit_ok: bool
) -> Findings:
    """The findings behind the last good record.

    Args:
        row: The segments.
        survey: A walk that is done.
        stated_end: End of the log at the last clean stop.
        last_exit_ok: The last process closed the store.
    """
    file, at = row.place_of(survey.end)
    is_short = survey.end < stated_end
    if is_short:
        yield Finding(
            rule=StoreRule.LOG_END,
            file=file,
            offset=at,
            expected=f"records up to {stated_end}, where the log ended at the last clean stop",
            found=survey.tail_reason or "the end of the last segment",
            step=Step.CORRECT_REGISTER,
        )
    if not survey.tail_is_zero:
        is_damage = last_exit_ok or is_short
        yield Finding(
            rule=StoreRule.LOG_END,
            file=file,
            offset=at,
            expected="zeros behind the last record",
            found=survey.tail_reason,
            severity=Severity.LOST if is_damage else Severity.NOTE,
            step=Step.CUT_TAIL if is_damage else Step.NOTHING,
        )


def head_finding(row: SegmentRow, found: Found) -> Finding:
    """A record of which one field of the head is damaged."""
    file, offset = row.place_of(found.position)
    return Finding(
        rule=StoreRule.RECORD_DAMAGED,
        file=file,
        offset=offset,
        expected=f"a record of {found.size} bytes, as its parts and its checksum say",
        found=found.repaired,
        severity=Severity.DERIVED,
        step=Step.REPAIR_RECORD,
        subject=found,
    )


def repair_finding(row: SegmentRow, repair: RecordRepair) -> Finding:
    """A record that states another place in a queue than its own."""
    misfit = repair.misfit
    kind = "" if misfit.is_queued else ", as one of a transaction that no queue holds"
    file, offset = row.place_of(misfit.position)
    return Finding(
        rule=StoreRule.RECORD_DAMAGED,
        file=file,
        offset=offset,
        expected=f"the record of {repair.topic}/{repair.queue_id} at {repair.queue_offset}",
        found=f"{misfit.topic}/{misfit.queue_id} at {misfit.queue_offset}{kind}",
        severity=Severity.DERIVED,
        step=Step.REPAIR_RECORD,
        subject=repair,
    )


def gap_finding(gap: Gap) -> Finding:
    """Queue offsets without a record."""
    return Finding(
        rule=StoreRule.RECORD_MISSING,
        file=queue_directory(gap.topic, gap.queue_id),
        offset=gap.first * UNIT.size,
        expected=f"records of queue offsets {gap.first} to {gap.end - 1} in the log",
        found="none",
        step=Step.MARK_LOST,
        count=gap.end - gap.first,
        subject=gap,
    )


def unit_finding(key: tuple[str, int], run: Run) -> Finding:
    """Units that are not as their records say."""
    return Finding(
        rule=StoreRule.QUEUE_DIFFERS,
        file=queue_directory(*key),
        offset=run.first * UNIT.size,
        expected=run.expected,
        found=run.found,
        step=Step.REBUILD_QUEUE,
        count=run.end - run.first,
        subject=key,
    )


def lost_unit_finding(key: tuple[str, int], offset: int, unit: RawUnit, log_end: int) -> Finding:
    """A unit that shows that a killed process had written more than the log has."""
    return Finding(
        rule=StoreRule.RECORD_MISSING,
        file=queue_directory(*key),
        offset=offset * UNIT.size,
        expected=f"no unit behind {log_end}, where the log ends: the process was killed",
        found=f"{unit_text(unit)}: a message is lost, and its queue offset is given out again",
        step=Step.REBUILD_QUEUE,
        subject=key,
    )


def early_unit_finding(
    key: tuple[str, int], offset: int, unit: RawUnit | None, log_start: int
) -> Finding:
    """A unit before the first record of its queue that names a record which is in the log."""
    return Finding(
        rule=StoreRule.QUEUE_DIFFERS,
        file=queue_directory(*key),
        offset=offset * UNIT.size,
        expected=f"units of records before {log_start}, where the log begins",
        found=unit_text(unit),
        step=Step.REBUILD_QUEUE,
        subject=key,
    )


def misfit_finding(row: SegmentRow, misfit: Misfit) -> Finding:
    """A record that fits no queue and no gap."""
    file, offset = row.place_of(misfit.position)
    return Finding(
        rule=StoreRule.QUEUE_DIFFERS,
        file=file,
        offset=offset,
        expected=f"the next record of {misfit.topic}/{misfit.queue_id}",
        found=f"queue offset {misfit.queue_offset}: it is in no queue, but in the log",
        severity=Severity.NOTE,
        step=Step.NOTHING,
    )


def early_finding(row: SegmentRow, position: int, *, deliver_ms: int, store_ms: int) -> Finding:
    """A delivery that was stored before its moment."""
    file, offset = row.place_of(position)
    return Finding(
        rule=StoreRule.EARLY,
        file=file,
        offset=offset,
        expected=f"a delivery stored at {deliver_ms} or later",
        found=f"one stored at {store_ms}",
        step=Step.NOTHING,
    )


def unit_text(unit: RawUnit | None) -> str:
    """The text of a unit, in words; ``NO_UNIT`` for None."""
    if unit is None:
        return NO_UNIT
    return f"a unit of position {unit[0]}, size {unit[1]}, tags code {unit[2]}"
