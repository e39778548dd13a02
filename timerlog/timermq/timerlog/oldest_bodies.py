"""The oldest message that waits, by position in the commit log: what cleaning asks for.

Units are appended in the order of the messages that they name, but for those that a recovery had
to append again: these name older messages than units before them. So every unit that is needed
counts, wherever it stands. Of each stretch of units the position of the oldest message is kept, 8
bytes for 16,384 units; a stretch is read again only when it may have the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from timermq.timerstore.array_types import Flags
from timermq.timerstore.mapped_file import MappedFile
from timermq.timerstore.mapped_file_queue import MappedFileQueue

from .segment import CHUNK_COUNT, chunks_of, units_in
from .unit import UNIT, Units, are_units

STRETCH_SIZE = CHUNK_COUNT * UNIT.size


class OldestBodies:
    """Of the units in a row of segments, which only grows while this is used.

    Args:
        queue: The segments.
    """

    def __init__(self, queue: MappedFileQueue) -> None:
        self._queue = queue
        self._oldest: dict[int, int | None] = {}
        """Start of a stretch that is full to the oldest message that its units name."""

    def learn(self) -> Iterator[None]:
        """Read the stretches that are full and not known yet; yields after each."""
        first_pos = self._queue.min_offset
        self._oldest = {at: one for at, one in self._oldest.items() if at >= first_pos}
        for segment, start, end in list(self._stretches(first_pos)):
            is_open = segment in self._queue.segments
            if is_open and end <= self._queue.wrote and start not in self._oldest:
                self._oldest[start] = _oldest(_units(segment, start, end))
                yield

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
            last = segment.start + units_in(segment.size) * UNIT.size
            for start in range(segment.start, last, STRETCH_SIZE):
                end = min(start + STRETCH_SIZE, last)
                if end > from_pos and start < self._queue.wrote:
                    yield segment, start, end


def _units(segment: MappedFile, start: int, end: int) -> Units:
    parts = [units for _, units in chunks_of(segment, start, end)]
    units = np.concatenate(parts) if parts else np.empty(0, UNIT.dtype)
    return units[are_units(units)]


def _oldest(units: Units) -> int | None:
    return int(units["offset_py"].min()) if len(units) else None
