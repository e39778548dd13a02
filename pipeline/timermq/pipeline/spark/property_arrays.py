r"""Property texts of many records, read together: a column for each name.

The texts stand in one run. A property begins at the start of a text and behind each ``\x02``; all
of them are found at once, and a name is looked for by comparing the first eight bytes of all with
its own. What is found is always what ``properties.find`` finds in each text by itself.
"""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.byte_columns import rows_at

from .byte_arrays import Values, bounds_of, pieces

_END = 2
_WORD = 8
_PADDING = 64
"""Zeros behind the texts: a name is compared without asking whether there are bytes for it."""


@attrs.frozen(eq=False)
class Found:
    """The place of a property in each text."""

    starts: Places
    """Start of its name."""
    value_starts: Places
    ends: Places
    """Behind the value."""
    present: Flags
    """False for a text without it: its places are -1."""


@attrs.define(eq=False, slots=False)
class PropertyArrays:
    """The texts of some records.

    Args:
        column: ``binary`` without null.
    """

    column: Values

    @cached_property
    def bounds(self) -> Places:
        """The ends of the texts in ``data``; the first number is their start."""
        return bounds_of(self.column)

    @cached_property
    def data(self) -> bytes:
        """The texts, one behind the other, and some zeros."""
        values = self.column.buffers()[2]
        end = int(self.bounds[-1])
        return (b"" if values is None else values[:end].to_pybytes()) + bytes(_PADDING)

    @cached_property
    def _properties(self) -> tuple[Places, Places, Places]:
        """Of each property: where it begins and ends, and which text it is of."""
        first, end = int(self.bounds[0]), int(self.bounds[-1])
        octets = np.frombuffer(self.data, np.uint8, end)
        begins = np.zeros(end + 1, np.bool_)
        begins[first + 1 :] = octets[first:] == _END
        ends_there = begins.copy()
        begins[self.bounds] = True
        starts = np.flatnonzero(begins[:end])
        if not len(starts):
            return starts, starts, starts
        stops = np.append(starts[1:], end)
        stops = stops - ends_there[stops]
        is_first = np.zeros(end + 1, np.bool_)
        is_first[self.bounds] = True
        with_text = np.flatnonzero(np.diff(self.bounds) > 0)
        owners = with_text[np.cumsum(is_first[starts]) - 1]
        return starts, stops, owners

    @cached_property
    def _words(self) -> Places:
        """The first eight bytes of each property."""
        starts = self._properties[0]
        windows = np.ndarray(len(self.data) - _WORD + 1, f"V{_WORD}", self.data, strides=(1,))
        return windows[starts].view("<u8")

    def find(self, name: bytes, *, may_be_empty: bool = False) -> Found:
        """The place of the last property of a name that has a value.

        Args:
            name: Without the separator.
            may_be_empty: The last one, with a value or without.
        """
        starts, ends, owners = self._properties
        mark = name + b"\x01"
        size = min(len(mark), _WORD)
        mask = np.uint64((1 << 8 * size) - 1)
        word = np.uint64(int.from_bytes(mark[:size], "little"))
        hits = np.flatnonzero((self._words & mask) == word)
        if len(mark) > size:
            rest = rows_at(self.data, starts[hits] + size, len(mark) - size)
            hits = hits[(rest == np.frombuffer(mark, np.uint8)[size:]).all(axis=1)]
        sizes = ends[hits] - starts[hits]
        # The comparison does not stop at the end of a text.
        hits = hits[sizes >= len(mark) if may_be_empty else sizes > len(mark)]
        last = np.full(len(self.column), -1, np.int64)
        last[owners[hits]] = hits
        present = last >= 0
        if not len(starts):
            return Found(last, last, last, present)
        found = np.where(present, starts[last], -1)
        return Found(
            found,
            np.where(present, found + len(mark), -1),
            np.where(present, ends[last], -1),
            present,
        )

    def values(self, found: Found) -> Values:
        """The values as ``binary``, null where there is none."""
        return pieces(self.data, found.value_starts, found.ends, found.present)

    def value(self, name: bytes) -> Values:
        """The values of a property, null where there is none."""
        return self.values(self.find(name))

    def have(self, places: Places, wanted: bytes, among: Flags) -> Flags:
        """Which texts have these bytes at a place, out of some."""
        found = np.zeros(len(places), np.bool_)
        rows = np.flatnonzero(among)
        found[rows] = (
            rows_at(self.data, places[rows], len(wanted)) == np.frombuffer(wanted, np.uint8)
        ).all(axis=1)
        return found
