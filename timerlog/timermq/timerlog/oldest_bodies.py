"""The oldest message that waits, by position in the commit log: what cleaning asks for.

Units are appended in the order of the messages that they name, but for those that a recovery had
to append again: these name older messages than units before them. So every unit that is needed
counts, wherever it stands. Of each stretch of units the position of the oldest message is kept, 8
bytes for 16,384 units; a stretch is read again only when it may have the answer.

Each stretch that is full and durable is read here once a process. So this is where its outline is
made, or compared with the one that an earlier process has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import structlog

from timermq.timerstore.array_types import Flags
from timermq.timerstore.mapped_file import MappedFile
from timermq.timerstore.mapped_file_queue import MappedFileQueue

from .outlines import Outlines, stretches_of
from .segment import chunks_of
from .stretch_outline import StretchOutline, outline_of
from .unit import UNIT, Units, are_units

log = structlog.get_logger("timermq.timerlog.oldest_bodies")


class OldestBodies:
    """Of the units in a row of segments, which only grows while this is used.

    Args:
        queue: The segments.
        outlines: Where the outlines of their stretches are kept; None: nowhere.
    """

    def __init__(self, queue: MappedFileQueue, outlines: Outlines | None = None) -> None:
        self._queue = queue
        self._outlines = outlines if outlines is not None and outlines.are_kept else None
        self._kept: tuple[int, dict[int, StretchOutline]] = (-1, {})
        """Start of the segment that was looked at last, and its outlines when it was first."""
        self._oldest: dict[int, int | None] = {}
        """Start of a stretch that is full to the oldest message that its units name."""

    def learn(self) -> Iterator[None]:
        """Read the stretches that are full and durable, and not known yet; yields after each."""
        first_pos = self._queue.min_offset
        if first_pos > min(self._oldest, default=first_pos):
            self._oldest = {at: one for at, one in self._oldest.items() if at >= first_pos}
            self._try(lambda outlines: outlines.drop_before(first_pos))
        for segment, start, end in list(self._stretches(first_pos)):
            is_open = segment in self._queue.segments
            is_durable = end <= min(self._queue.wrote, self._queue.flushed_where)
            if is_open and is_durable and start not in self._oldest:
                self._learn(segment, start, end)
                yield

    def _learn(self, segment: MappedFile, start: int, end: int) -> None:
        if self._outlines is None:
            self._oldest[start] = _oldest(_units(segment, start, end))
            return
        data = segment.file.read(start - segment.start, end - start)
        outline, deletes = outline_of(start, data)
        self._oldest[start] = outline.first_py if outline.unit_count else None

        def keep(outlines: Outlines) -> None:
            if self._kept[0] != segment.start:
                self._kept = segment.start, outlines.read(segment.start)
            kept = self._kept[1].get(start)
            is_kept = kept is not None and outline.is_of(kept)
            if kept is None or not is_kept or outlines.deletes(kept) is None:
                outlines.write(outline, deletes)

        self._try(keep)

    def _try(self, change: Callable[[Outlines], None]) -> None:
        """Do something with the outlines; a disk that refuses leaves some out, or old ones."""
        if self._outlines is not None:
            try:
                change(self._outlines)
            except OSError as error:
                log.warning(
                    "outline not kept", directory=self._outlines.directory, error=str(error)
                )

    def oldest(self, from_pos: int, are_needed: Callable[[Units], Flags]) -> int | None:
        """Position of the oldest message that a needed unit from ``from_pos`` on names.

        Args:
            from_pos: Units before it are not asked for.
            are_needed: Which of some units are needed.

        Returns:
            None when there is none; 0, which is before every message, where units are not known.
        """
        found: int | None = None
        for segment, start, end in self._stretches(from_pos):
            if end <= self._queue.wrote:
                if start not in self._oldest:
                    return 0
                least = self._oldest[start]
                if least is None or (found is not None and least >= found):
                    continue
            units = _units(segment, max(start, from_pos), min(end, self._queue.wrote))
            needed = _oldest(units[are_needed(units)])
            if needed is not None:
                found = needed if found is None else min(found, needed)
        return found

    def _stretches(self, from_pos: int) -> Iterator[tuple[MappedFile, int, int]]:
        """Segment, start and end of each stretch that reaches beyond ``from_pos``."""
        for segment in self._queue.segments:
            for start, end in stretches_of(segment.start, segment.size):
                if end > from_pos and start < self._queue.wrote:
                    yield segment, start, end


def _units(segment: MappedFile, start: int, end: int) -> Units:
    parts = [units for _, units in chunks_of(segment, start, end)]
    units = np.concatenate(parts) if parts else np.empty(0, UNIT.dtype)
    return units[are_units(units)]


def _oldest(units: Units) -> int | None:
    return int(units["offset_py"].min()) if len(units) else None
