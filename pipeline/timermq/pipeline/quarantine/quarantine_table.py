"""The places of the quarantine's entries: a row each, in memory, about 50 bytes.

A row stays when its entry is done, for as long as the commit log has the entry: so what became of
it can be told, and is told again to who asks again.

Rows are columns of plain numbers, and are found by their origin through a table of places with open
addressing: a lost segment can bring millions of entries, which as objects would cost a gigabyte.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import attrs
import numpy as np

from .quarantine_record import State

_RENEWED = -1
"""State of a row whose entry stands further on in the log by now."""
_FREE = -1
_SPREAD = 0x9E3779B97F4A7C15
"""The golden ratio in 64 bits: neighbouring positions land far apart."""


@attrs.frozen
class Place:
    """The newest entry for an origin."""

    origin_py: int
    offset_py: int
    """Position of the entry in the commit log."""
    size_py: int


class QuarantineTable:
    """The rows, in the order of the log."""

    def __init__(self) -> None:
        self.active = 0
        """Entries in quarantine."""
        self._origins = array("q")
        self._offsets = array("q")
        self._sizes = array("i")
        self._states = array("b")
        self._rows_at = array("q", [_FREE]) * 16
        """Number of a row by the hash of its origin; at most half of it is taken."""

    def add(self, origin_py: int, offset_py: int, size_py: int) -> None:
        """An entry was written behind all others; it stands for earlier ones with its origin."""
        if 2 * (len(self._origins) + 1) > len(self._rows_at):
            self._spread(2 * len(self._rows_at))
        at = self._at(origin_py)
        row = self._rows_at[at]
        if row != _FREE:
            self.active -= self._states[row] == State.ACTIVE
            self._states[row] = _RENEWED
        self._rows_at[at] = len(self._origins)
        self._origins.append(origin_py)
        self._offsets.append(offset_py)
        self._sizes.append(size_py)
        self._states.append(State.ACTIVE)
        self.active += 1

    def end(self, origin_py: int, state: State) -> None:
        """Note what became of an active entry; others stay as they are."""
        row = self._rows_at[self._at(origin_py)]
        if row != _FREE and self._states[row] == State.ACTIVE:
            self._states[row] = state
            self.active -= 1

    def state(self, origin_py: int) -> State | None:
        """The state of the entry with an origin; None when there is none."""
        row = self._rows_at[self._at(origin_py)]
        return None if row == _FREE else State(self._states[row])

    def place(self, origin_py: int) -> Place | None:
        """The newest entry with an origin, done or not."""
        row = self._rows_at[self._at(origin_py)]
        return None if row == _FREE else self._place(row)

    def places(self, after_py: int = -1) -> Iterator[Place]:
        """The messages in quarantine now, of entries behind a position."""
        is_active = np.array(self._states, np.int8) == State.ACTIVE
        is_wanted = is_active & (np.array(self._offsets, np.int64) > after_py)
        return (self._place(int(row)) for row in np.flatnonzero(is_wanted))

    def first_py(self) -> int | None:
        """Position of the oldest entry in quarantine; None without any."""
        if not self.active:
            return None
        return self._offsets[self._states.index(State.ACTIVE)]

    def forget_before(self, min_py: int) -> None:
        """Let go of done entries that the log has let go of."""
        offsets = np.array(self._offsets, np.int64)
        states = np.array(self._states, np.int8)
        kept = (offsets >= min_py) | (states == State.ACTIVE)
        if kept.all():
            return
        self._origins = array("q", np.array(self._origins, np.int64)[kept].tobytes())
        self._offsets = array("q", offsets[kept].tobytes())
        self._sizes = array("i", np.array(self._sizes, np.int32)[kept].tobytes())
        self._states = array("b", states[kept].tobytes())
        self._spread(max(16, 1 << (2 * len(self._origins)).bit_length()))

    def _place(self, row: int) -> Place:
        return Place(self._origins[row], self._offsets[row], self._sizes[row])

    def _at(self, origin_py: int) -> int:
        """The index at which the number of an origin's row stands, or would stand."""
        rows_at, origins, last = self._rows_at, self._origins, len(self._rows_at) - 1
        at = (origin_py * _SPREAD >> 20) & last
        while (row := rows_at[at]) != _FREE and origins[row] != origin_py:
            at = (at + 1) & last
        return at

    def _spread(self, size: int) -> None:
        """Give the numbers of the rows new places, so many.

        All rows that have none yet try one at a time, together: of those that meet at a free one,
        one takes it. A row passes taken places alone, so ``_at`` finds it.
        """
        rows_at = np.full(size, _FREE, np.int64)
        rows = np.flatnonzero(np.array(self._states, np.int8) != _RENEWED)
        origins = np.array(self._origins, np.int64)[rows].view(np.uint64)
        at = (origins * np.uint64(_SPREAD) >> np.uint64(20)).view(np.int64) & (size - 1)
        while len(rows):
            is_free = rows_at[at] == _FREE
            rows_at[at[is_free]] = rows[is_free]
            is_left = rows_at[at] != rows
            rows, at = rows[is_left], (at[is_left] + 1) & (size - 1)
        self._rows_at = array("q", rows_at.tobytes())
