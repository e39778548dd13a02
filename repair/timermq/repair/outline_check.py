"""The outlines of the timer log, compared with the units that they are of, and made again.

Only those are believed by anyone that this program has left: after RocketMQ has served the store
the next start removes them, so there is nothing to compare. What has no outline is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import attrs
import numpy as np

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import UNIT, TimerCheckpoint
from timermq.timerlog.outlines import DIRECTORY, Outlines
from timermq.timerlog.segment import units_in
from timermq.timerlog.stretch_outline import (
    OUTLINE,
    STRETCH_SIZE,
    Deletes,
    StretchOutline,
    outline_of,
)
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH, PAGE_SIZE
from timermq.timerstore.disk import Disk

from .backup import Backup
from .finding import Finding, Findings, Step
from .segment_row import RawSegment, SegmentRow, size_of
from .store_rule import StoreRule


@attrs.frozen
class OutlinePlace:
    """The stretch of an outline that is another one."""

    segment: RawSegment
    start: int
    """Position of the stretch."""


@attrs.frozen(kw_only=True)
class OutlineCheck:
    """The outlines of one store."""

    disk: Disk
    root: str
    timer_options: TimerOptions

    @property
    def _outlines(self) -> Outlines:
        size = self.timer_options.mapped_file_size_timer_log
        return Outlines(self.disk, f"{self.root}/timerlog", size)

    def find(self) -> Findings:
        """Outlines of durable stretches that are not what the units tell."""
        outlines, end = self._outlines, self._durable_end()
        row = SegmentRow(self.disk, self.root, "timerlog", outlines.segment_size)
        for segment in row.segments:
            if segment.size != row.segment_size:
                continue
            for start, kept in outlines.places(segment.start):
                found = self._derived(segment, start)
                if found is not None and found[0].end <= end and not self._fits(kept, *found):
                    yield _differs(segment, start, kept)

    def repair(self, findings: Sequence[Finding], backup: Backup) -> None:
        """Make the outlines that were found again; their files have a backup before.

        Raises:
            NoRoomError: No room to keep an original.
            OSError: The disk refused; a repair can be run again.
        """
        for one in findings:
            if isinstance(one.subject, OutlinePlace):
                backup.copy(one.file)
                found = self._derived(one.subject.segment, one.subject.start)
                if found is not None:
                    self._outlines.write(*found)

    def _fits(self, kept: StretchOutline | None, outline: StretchOutline, deletes: Deletes) -> bool:
        if kept is None or not outline.is_of(kept):
            return False
        stored = self._outlines.deletes(kept)
        return stored is not None and np.array_equal(stored, deletes)

    def _derived(self, segment: RawSegment, start: int) -> tuple[StretchOutline, Deletes] | None:
        """What the units of a stretch tell; None of a file that is too short."""
        last = segment.start + units_in(self._outlines.segment_size) * UNIT.size
        size = min(STRETCH_SIZE, last - start)
        with closing(self.disk.open(f"{self.root}/{segment.path}", read_only=True)) as file:
            data = file.read(start - segment.start, size)
        return outline_of(start, data) if len(data) == size else None

    def _durable_end(self) -> int:
        """Where the units end that an outline can be of; 0 where none is believed."""
        path = f"{self.root}/{CHECKPOINT_PATH}"
        if size_of(self.disk, path) != PAGE_SIZE:
            return 0
        with closing(TimerCheckpoint.open(self.disk, path, read_only=True)) as page:
            return 0 if page.extension is None else page.last_timer_log_flush_pos


def _differs(segment: RawSegment, start: int, kept: StretchOutline | None) -> Finding:
    return Finding(
        rule=StoreRule.OUTLINE_DIFFERS,
        file=f"{DIRECTORY}/{segment.path.rpartition('/')[2]}",
        offset=(start - segment.start) // STRETCH_SIZE * OUTLINE.size,
        expected="what the units of the stretch tell",
        found="bytes that are no outline of it" if kept is None else "the outline of other units",
        step=Step.REWRITE_OUTLINE,
        subject=OutlinePlace(segment, start),
    )
