"""The scrub of a store: its bytes at rest are compared, one pass after the other, while it serves.

Unread bytes may rot unseen until they are due. So a pass looks at all that is there when it
begins, the oldest first: commit log and queues, timer log, tables. What is decided here is plain;
when a piece is looked at is up to who calls ``step``, which takes a millisecond or less of work.

Nothing is kept from being cleaned: a piece that has gone is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from .scrub_note import ScrubNote
from .seal_scrub import Scrubbed


class ScrubPart(Protocol):
    """One kind of files, by positions that only grow."""

    @property
    def start(self) -> int:
        """The first position that is there."""
        ...

    @property
    def end(self) -> int:
        """The position behind the last one."""
        ...

    def begin(self) -> None:
        """A pass begins, or goes on in another process."""
        ...

    def step(self, at: int, end: int) -> Scrubbed:
        """Look at the piece that begins at ``at``, which is before ``end``; OSError as the disk."""
        ...

    def announce(self, at: int, end: int) -> None:
        """Have the piece brought to memory meanwhile."""
        ...


@attrs.frozen(kw_only=True)
class ScrubStatistics:
    """How far the scrub has come, and what it has found."""

    done_ratio: float | None
    """Part of the pass under way that is done, 0 to 1; None between two passes."""
    begun_ms: int
    """When the pass under way, or the last one, began, epoch milliseconds; 0 before the first."""
    whole_ms: int
    """When the last whole pass ended; 0 without one."""
    passes: int
    """Whole passes since the start of the process."""
    size: int
    """Bytes read since then."""
    damaged: int
    """Things found damaged since then: sectors, records, units, tables."""
    repaired: int
    """Those of them that were put right."""
    put_back: int
    """Damaged sectors of the commit log that were put back since then as another copy has them."""
    left: int
    """Things that the last pass, or the one under way, has found and could not put right."""


class Scrub:
    """The passes of one store.

    Args:
        parts: What is looked at, in this order.
        note: Where the process before has come to; kept up to date.
    """

    def __init__(self, parts: Sequence[ScrubPart], note: ScrubNote) -> None:
        self.note = note
        self.is_under_way = note.part < len(parts) and note.begun_ms > 0
        self._parts = parts
        self._end: int | None = None
        """Of the part that is looked at, as it was when that began."""
        self._passes = self._size = self._damaged = self._repaired = self._put_back = 0
        if self.is_under_way:
            for part in parts:
                part.begin()

    def begin(self, now_ms: int) -> None:
        """Begin a pass, with the first part."""
        for part in self._parts:
            part.begin()
        self.note.part, self.note.at, self.note.left_now = 0, self._parts[0].start, 0
        self.note.begun_ms = now_ms
        self._end, self.is_under_way = None, True

    def step(self, now_ms: int) -> Scrubbed:
        """Look at the next piece; ``is_under_way`` is False when it was the last one.

        Raises:
            OSError: The disk did not take what was put right, or no file can be opened now; the
                same piece is looked at again.
        """
        note, part = self.note, self._parts[self.note.part]
        if self._end is None:
            self._end = part.end
        found = part.step(note.at, self._end)
        note.at = found.at
        note.left_now += found.damaged - found.repaired
        self._size += found.size
        self._damaged += found.damaged
        self._repaired += found.repaired
        if note.at >= self._end:
            self._go_on(now_ms)
        return found

    def note_put_back(self, *, is_told: bool) -> None:
        """Bytes were put back from another copy of the log.

        Args:
            is_told: A step had found them damaged.
        """
        self._put_back += 1
        if is_told:
            note = self.note
            note.left, note.left_now = max(note.left - 1, 0), max(note.left_now - 1, 0)

    def announce(self) -> None:
        """Have the next piece brought to memory."""
        if self.is_under_way:
            part = self._parts[self.note.part]
            part.announce(self.note.at, part.end if self._end is None else self._end)

    def _go_on(self, now_ms: int) -> None:
        """Turn to the next part, or end the pass."""
        note = self.note
        note.part, self._end = note.part + 1, None
        if note.part < len(self._parts):
            note.at = self._parts[note.part].start
            return
        self.is_under_way = False
        note.at, note.whole_ms, note.left, note.left_now = 0, now_ms, note.left_now, 0
        self._passes += 1

    def statistics(self) -> ScrubStatistics:
        """How far the scrub has come by now."""
        return ScrubStatistics(
            done_ratio=self._done_ratio() if self.is_under_way else None,
            begun_ms=self.note.begun_ms,
            whole_ms=self.note.whole_ms,
            passes=self._passes,
            size=self._size,
            damaged=self._damaged,
            repaired=self._repaired,
            put_back=self._put_back,
            left=max(self.note.left, self.note.left_now),
        )

    def _done_ratio(self) -> float:
        sizes = [part.end - part.start for part in self._parts]
        current = self._parts[self.note.part]
        done = sum(sizes[: self.note.part]) + max(self.note.at - current.start, 0)
        return min(done / max(sum(sizes), 1), 1.0)
