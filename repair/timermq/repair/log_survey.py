"""A walk over the whole commit log that does not stop at damage.

``CommitLog.scan`` ends at the first thing that is no record. From damage the survey goes on at the
next record (``record_places``). What lies between is a *hole*.

A record that is good by itself may have lost its last bytes to a damaged sector that it shares with
what stands behind it. Damage is taken for one run of bytes: it is a hole too, unless bytes right
behind it are as they must be.

The log's end is behind its last good record, or where it is known to have reached (``LogReach``).
What stands behind that is no hole but a *tail*: zeros after a clean stop, a torn write after a
power cut.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator

import attrs

from timermq.timerstore.log_holes import Hole, is_zero, look_at, repaired_at
from timermq.timerstore.record_layout import PHY_OFFSET_AT
from timermq.timerstore.record_places import LogPart, RecordPlaces
from timermq.timerstore.seal_page import SECTOR_SIZE

from .segment_row import SegmentRow

ZEROS_MIN = 32
"""Bytes, if the sector has so many left: more zeros than a record has in a row by itself."""


@attrs.frozen
class Found:
    """A good record, with its position and its bytes."""

    position: int
    size: int
    data: bytes
    repaired: str = ""
    """The false values in its head, which ``data`` has right; empty when all is right."""


class LogSurvey:
    """One walk; iterating gives records and holes in the order of the log.

    Args:
        row: The segments.
        known_to: What stands before this position was there for certain.
        damaged: Positions of the sectors that are not as their seals say.
        places: What is known of the places of records; None: what stands in the log alone.
    """

    def __init__(
        self,
        row: SegmentRow,
        known_to: int = -1,
        damaged: Collection[int] = (),
        places: RecordPlaces | None = None,
    ) -> None:
        self.end = row.start
        """Behind the last good record, or the blank behind it; at least what is known."""
        self.tail_reason = ""
        """The fault at the end instead of a record; empty when the segments end there."""
        self.tail_is_zero = True
        """Whether nothing was written behind the end."""
        self._row = row
        self._known_to = known_to
        self._damaged = damaged
        self._places = RecordPlaces() if places is None else places
        self._holes: list[Hole] = []
        """Holes since the last good record: a tail, unless another record follows."""

    def __iter__(self) -> Iterator[Found | Hole]:
        for start in self._row.starts():
            for one in self._segment(start):
                if isinstance(one, Hole):
                    self._holes.append(one)
                    continue
                yield from self._holes
                self._holes.clear()
                if isinstance(one, Found):
                    yield one
                    self.end = one.position + one.size
                else:
                    self.end = start + self._row.segment_size
        yield from self._lost_end()
        if self._holes:
            self.tail_reason = self._holes[0].reason
            self.tail_is_zero = all(self._is_zero(hole) for hole in self._holes)

    def _lost_end(self) -> Iterator[Hole]:
        """The holes of the tail, where more than good records was."""
        tail: list[Hole] = []
        for hole in self._holes:
            known_to = min(self._known_to, hole.end)
            if known_to > hole.position:
                reaches_end = hole.reaches_segment_end and known_to == hole.end
                self.end = known_to
                yield attrs.evolve(hole, end=known_to, reaches_segment_end=reaches_end)
            if known_to < hole.end:
                tail.append(attrs.evolve(hole, position=max(known_to, hole.position)))
        self._holes = tail

    def _segment(self, start: int) -> Iterator[Found | Hole | None]:
        """Records and holes of one segment; None for the blank that ends it."""
        view, segment_size = self._row.view(start), self._row.segment_size
        limit = min(len(view), segment_size)
        is_whole = len(view) == segment_size
        at = 0
        while at < segment_size:
            reason, size = look_at(view, at, limit, start, is_whole=is_whole)
            if not reason:
                if not size:
                    yield None
                    return
                end = at + size
                if self._may_lack_its_end(view, end, limit, start):
                    yield Hole(start + at, start + end, "damage that may begin within it", False)
                else:
                    yield Found(start + at, size, view[at:end])
                at = end
                continue
            repaired = repaired_at(view, at, limit, start)
            if repaired is not None and self._places.allow(start + at, len(repaired)):
                yield Found(start + at, len(repaired), repaired, reason)
                at += len(repaired)
                continue
            is_tail = is_zero(view, at, limit)
            part = LogPart(view, limit, start, is_whole)
            resumed = None if is_tail else self._places.behind(part, at)
            end = segment_size if resumed is None else resumed
            yield Hole(start + at, start + end, reason, resumed is None)
            at = end

    def _may_lack_its_end(self, view: mmap.mmap | bytes, end: int, limit: int, start: int) -> bool:
        """Whether the damage of the sector in which a record ends may begin before its end.

        It does not where zeros or the next head follow: what was cut off, or never came there.
        """
        sector = end - end % SECTOR_SIZE
        if end == sector or start + sector not in self._damaged:
            return False
        if not look_at(view, end, limit, start, is_whole=True)[0]:
            return False
        if repaired_at(view, end, limit, start) is not None:
            return False
        stop = min(sector + SECTOR_SIZE, limit)
        position = view[end + PHY_OFFSET_AT : min(end + PHY_OFFSET_AT + 8, stop)]
        is_head = position == (start + end).to_bytes(8)
        return not is_head and not is_zero(view, end, min(end + ZEROS_MIN, stop))

    def _is_zero(self, hole: Hole) -> bool:
        start = hole.position - hole.position % self._row.segment_size
        view = self._row.view(start)
        at, end = hole.position - start, min(hole.end - start, len(view))
        return is_zero(view, at, end)
