"""Commit log and timer log, compared with their seals: all of what was there for certain.

A seal that does not fit tells the truth, and of a single damaged word it tells what it was. Behind
what was durable a power cut may have kept seals of bytes that it took. A process that was killed
leaves all that it wrote, so the commit log is compared to where it reached (``LogReach``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import attrs

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import TimerCheckpoint
from timermq.timerlog.segment import units_in
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH, PAGE_SIZE
from timermq.timerlog.unit import UNIT
from timermq.timerstore.disk import Disk, File
from timermq.timerstore.seal_page import SECTOR_SIZE, STRETCH_SIZE, changed_at
from timermq.timerstore.seal_reader import SealReader
from timermq.timerstore.store_options import StoreOptions

from .backup import Backup
from .finding import Finding, Findings, Step
from .known_end import checkpoint_page, known_end, was_stopped
from .segment_row import RawSegment, SegmentRow, size_of
from .store_rule import Severity, StoreRule

COMPARED_SIZE = 32 * STRETCH_SIZE
"""Bytes that are read in one go: a megabyte."""


@attrs.frozen
class DamagedWord:
    """A sector of which one word alone is another."""

    path: str
    """Under the root, of the segment."""
    offset: int
    """Of the sector in it."""
    before: bytes
    """The sector as it was, as far as it is sealed."""


@attrs.frozen
class DamagedSectors:
    """Neighbouring sectors of the commit log that are damaged in more than a word."""

    positions: tuple[int, ...]


def damaged_sectors(findings: Iterable[Finding]) -> frozenset[int]:
    """The positions of all of them that were found."""
    return frozenset(
        position
        for one in findings
        if isinstance(one.subject, DamagedSectors)
        for position in one.subject.positions
    )


@attrs.frozen(kw_only=True)
class SealCheck:
    """The seals of one store."""

    disk: Disk
    root: str
    store_options: StoreOptions
    timer_options: TimerOptions

    def find_in_log(self) -> Findings:
        """Damaged sectors of the commit log."""
        page = checkpoint_page(self.disk, self.root)
        size = self.store_options.mapped_file_size_commit_log
        row = SegmentRow(self.disk, self.root, "commitlog", size)
        end = self._whole_sectors_before((page and page.durable_py) or 0)
        reach = known_end(self.disk, self.root, row)
        yield from self._find(row, max(end, reach.compared_to), _lost)

    def find_in_timer_log(self) -> Findings:
        """Damaged sectors of the timer log."""
        path = f"{self.root}/{CHECKPOINT_PATH}"
        if size_of(self.disk, path) != PAGE_SIZE:
            return
        with closing(TimerCheckpoint.open(self.disk, path, read_only=True)) as page:
            end = 0 if page.extension is None else page.last_timer_log_flush_pos
        size = self.timer_options.mapped_file_size_timer_log
        row = SegmentRow(self.disk, self.root, "timerlog", size)
        yield from self._find(row, self._whole_sectors_before(end), _cut)

    def repair(self, findings: Sequence[Finding], backup: Backup) -> None:
        """Put the words right that were found, durably; their segments have a backup before.

        Raises:
            NoRoomError: No room to keep an original.
            OSError: The disk refused; a repair can be run again.
        """
        for one in findings:
            if isinstance(one.subject, DamagedWord):
                backup.copy(one.subject.path)
                with closing(self.disk.open(f"{self.root}/{one.subject.path}")) as file:
                    file.write(one.subject.offset, one.subject.before)
                    self.disk.sync_now(file)

    def _find(
        self, row: SegmentRow, end: int, left: Callable[[RawSegment, list[int]], Finding]
    ) -> Findings:
        """The damage before ``end``; ``left`` makes the finding of sectors that stay so."""
        seals = SealReader(self.disk, f"{self.root}/{row.directory}")
        for segment in row.segments:
            if segment.size != row.segment_size or segment.start >= end:
                continue
            limit = min(segment.start + segment.size, end)
            with closing(self.disk.open(f"{self.root}/{segment.path}", read_only=True)) as file:
                for at in range(segment.start, limit, COMPARED_SIZE):
                    found = seals.damaged(segment.start, file, at, min(at + COMPARED_SIZE, limit))
                    yield from _findings(segment, file, seals, found, left)

    def _whole_sectors_before(self, end: int) -> int:
        """End of the compared sectors: a power cut may have taken a part of the last one."""
        return end if was_stopped(self.disk, self.root) else end - end % SECTOR_SIZE


def _findings(
    segment: RawSegment,
    file: File,
    seals: SealReader,
    sectors: list[int],
    left: Callable[[RawSegment, list[int]], Finding],
) -> Findings:
    run: list[int] = []
    for sector in sectors:
        before = seals.before(segment.start, file, sector)
        if before is not None:
            yield _word(segment, file, sector - segment.start, before)
            continue
        if run and run[-1] != sector - SECTOR_SIZE:
            yield left(segment, run)
            run = []
        run.append(sector)
    if run:
        yield left(segment, run)


def _lost(segment: RawSegment, sectors: list[int]) -> Finding:
    return Finding(
        rule=StoreRule.LOG_SEAL,
        file=segment.path,
        offset=sectors[0] - segment.start,
        expected="sectors as their seals say",
        found="others, in more than a word: a message there is quarantined when it is due",
        step=Step.NOTHING,
        count=len(sectors),
        subject=DamagedSectors(tuple(sectors)),
    )


def _cut(segment: RawSegment, sectors: list[int]) -> Finding:
    at = sectors[0] - segment.start
    return Finding(
        rule=StoreRule.TIMER_LOG_SEAL,
        file=segment.path,
        offset=at,
        expected="sectors as their seals say",
        found="others, in more than a word",
        step=Step.CUT_TIMER_LOG,
        count=len(sectors),
        subject=segment.start + min(at // UNIT.size, units_in(segment.size)) * UNIT.size,
    )


def _word(segment: RawSegment, file: File, at: int, before: bytes) -> Finding:
    data = file.read(at, len(before))
    changed = changed_at(data, before)
    return Finding(
        rule=StoreRule.LOG_SEAL,
        file=segment.path,
        offset=at + changed,
        expected=f"byte {before[changed]:02x}, as it was sealed",
        found=f"{data[changed]:02x}",
        severity=Severity.DERIVED,
        step=Step.REPAIR_WORD,
        subject=DamagedWord(segment.path, at, before),
    )
