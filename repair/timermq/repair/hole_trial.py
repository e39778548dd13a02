"""The trial of what a source has in place of a hole: do the seals of the sectors there fit it?

A hole's bytes are no records any more, but its sectors have the seals that were made when they were
written. Bytes of which each sector fits its seal are those that stood there. A sector that lies
within the hole and does not fit shows that the source has others. A sector at the edge has bytes of
the store too, which may be damaged themselves: that it does not fit shows nothing.
"""

from __future__ import annotations

import enum
import hashlib

import attrs

from timermq.timerstore.disk import Disk
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.seal_page import SECTOR_SIZE, STRETCH_SIZE, SealPage, seal_of
from timermq.timerstore.seal_reader import SealReader

from .log_source import RecordRun
from .segment_row import SegmentRow


class Verdict(enum.Enum):
    """What a trial has shown."""

    PROVED = "they are the bytes that stood there"
    OPEN = "they are records, and no seal tells more"
    REFUTED = "they are others, or no records, or too few"


@attrs.define(eq=False)
class SealedSectors:
    """The seals of one log's sectors, of those that were sealed as they were written.

    Args:
        disk: The disk of the store.
        directory: Of the segments.
        segment_size: Bytes of one segment.
    """

    disk: Disk
    directory: str
    segment_size: int
    _page: tuple[int, SealPage | None] = attrs.field(default=(-1, None), init=False)
    """Position of a stretch, and its page."""

    def seal_of(self, sector: int, *, or_found: bool = False) -> tuple[int, int]:
        """How many bytes of a sector are sealed, and its seal; 0 bytes: none.

        Args:
            sector: Position of its first byte.
            or_found: Also a seal that was made of what stood there, maybe damaged already.
        """
        start = sector - sector % self.segment_size
        stretch = sector - (sector - start) % STRETCH_SIZE
        if self._page[0] != stretch:
            self._page = stretch, SealReader(self.disk, self.directory).page_of(start, sector)
        page = self._page[1]
        return (0, 0) if page is None or (page.is_found and not or_found) else page.seal_of(sector)


class HoleTrial:
    """One hole, and the bytes of a source as they come.

    Args:
        hole: The hole.
        row: The store's segments.
        seals: Of their sectors.
    """

    def __init__(self, hole: Hole, row: SegmentRow, seals: SealedSectors) -> None:
        self._hole = hole
        self._row = row
        self._seals = seals
        self._run = RecordRun(hole.position, hole.end, row.segment_size)
        self._digest = hashlib.sha256()
        self._sector = hole.position - hole.position % row.segment_size % SECTOR_SIZE
        """Position of the sector that is looked at next."""
        self._rest = self._padded(self._sector, hole.position)
        self._is_proved, self._is_refuted = True, False

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that was taken."""
        return self._digest.digest()

    def take(self, data: bytes) -> bool:
        """Take the next bytes; False when they are refuted, and no more are wanted."""
        self._digest.update(data)
        self._is_refuted = self._is_refuted or not self._run.feed(data)
        self._rest += data
        self._look()
        return not self._is_refuted

    def verdict(self) -> Verdict:
        """The verdict, when the source has no more."""
        if self._is_refuted or not self._run.is_whole:
            return Verdict.REFUTED
        if self._rest:
            segment_end = self._hole.position // self._row.segment_size + 1
            behind = min(self._sector + SECTOR_SIZE, segment_end * self._row.segment_size)
            self._compare(self._sector, self._rest + self._padded(self._hole.end, behind))
        if self._is_refuted:
            return Verdict.REFUTED
        return Verdict.PROVED if self._is_proved else Verdict.OPEN

    def _padded(self, first: int, end: int) -> bytes:
        data = self._row.read(first, end - first) if first < end else b""
        return data.ljust(max(end - first, 0), b"\0")

    def _look(self) -> None:
        """Compare the sectors that are whole."""
        at = 0
        while len(self._rest) - at >= SECTOR_SIZE:
            self._compare(self._sector, self._rest[at : at + SECTOR_SIZE])
            self._sector += SECTOR_SIZE
            at += SECTOR_SIZE
        self._rest = self._rest[at:]

    def _compare(self, sector: int, data: bytes) -> None:
        size, seal = self._seals.seal_of(sector)
        hole = self._hole
        fits = size > 0 and seal_of(data[:size]) == seal
        covers = sector + size >= min(sector + len(data), hole.end)
        self._is_proved = self._is_proved and fits and covers
        if size and not fits and hole.position <= sector and sector + size <= hole.end:
            self._is_refuted = True
