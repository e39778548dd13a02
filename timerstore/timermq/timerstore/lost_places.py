"""Places in queues of records that the log has lost and whose units are gone as well.

A queue that is made again from the log has a gap where a record was lost: the next one states a
higher queue offset. The old unit of the lost record keeps the place, but it may be gone too: it is
damaged itself, or a process was killed after it had removed the files of the queue. Then the place
gets a unit that shows a byte of the damaged stretch of the log in which the record must have stood,
but never its first byte, which is the position of a record. Such a unit keeps the queue dense, and
a reader passes over it as over any damaged record.

RocketMQ takes such a unit for one of a message that it cannot read. When `store repair` puts an
empty record in the place of the lost one, the queue shows that.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import attrs

from .log_reading import LogReading
from .old_bytes import OldBytes
from .queue_unit import LOST_SIZE, UNIT
from .record_layout import FIXED_SIZE_V1


@attrs.define(eq=False)
class LostPlaces:
    """Damaged stretches of the log, noted in its order as a reading meets them."""

    _begins: list[int] = attrs.field(factory=list[int])
    _ends: list[int] = attrs.field(factory=list[int])

    def note(self, begin: int, end: int) -> None:
        """Note that [begin, end) of the log is not as it was written."""
        self._begins.append(begin)
        self._ends.append(end)

    def noted(self, reading: LogReading, old: OldBytes) -> Iterator[tuple[int, bytes, bool]]:
        """Go through a reading, and note what is damaged.

        Yields:
            Position and bytes of each record, and whether it is as it was written.

        Raises:
            OSError: The disk failed.
        """
        seen = 0
        for phy_offset, data in reading:
            seen = self._note_holes(reading, seen)
            is_sound = old.compare(phy_offset, phy_offset + len(data))
            if not is_sound:
                self.note(phy_offset, phy_offset + len(data))
            yield phy_offset, data, is_sound
        self._note_holes(reading, seen)

    def _note_holes(self, reading: LogReading, seen: int) -> int:
        for hole in reading.holes[seen:]:
            self.note(hole.position, hole.end)
        return len(reading.holes)

    def units(self, first: int, end: int, count: int) -> list[bytes]:
        """Make units of lost records.

        Args:
            first: Where the record before them ends.
            end: Where the record behind them begins.
            count: How many records were lost.

        Returns:
            That many units, their positions ascending; none if so many cannot have stood in the
            damaged stretches of [first, end).
        """
        made: list[bytes] = []
        for at in range(bisect.bisect_right(self._ends, first), len(self._ends)):
            begin, limit = max(self._begins[at], first), min(self._ends[at], end)
            fitting = max(limit - begin, 0) // FIXED_SIZE_V1
            wanted = min(fitting, count - len(made))
            made += [UNIT.pack(begin + 1 + index, LOST_SIZE, 0) for index in range(wanted)]
            if len(made) == count:
                return made
            if limit == end:
                break
        return []
