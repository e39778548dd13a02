"""The property texts of a run, read together: a property stands in the same columns of all.

Most messages of a batch have the same properties in the same order, with values of the same sizes.
Then a property is looked for once, in the first text. A batch that is no run is read text by text,
as ``properties`` says.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from .array_types import Rows

_END = b"\x02"
_END_BYTE = 2
_VALUE = re.compile(rb"(?<=\x01)[^\x01\x02]*(?=\x02)")


class PropertyColumns:
    """The texts of a run; ``of`` makes one."""

    def __init__(self, rows: Rows, first: bytes, changed: NDArray[np.uint8]) -> None:
        self._rows = rows
        self._first = first
        self._changed = changed
        """Not 0 where texts differ."""

    @classmethod
    def of(cls, rows: Rows) -> PropertyColumns | None:
        """None when the texts differ in more than values.

        Args:
            rows: Property texts, at least one.
        """
        first = rows[0].tobytes()
        changed: NDArray[np.uint8] = np.bitwise_or.reduce(rows ^ rows[0], axis=0)
        is_value = np.zeros(len(first), np.bool_)
        for value in _VALUE.finditer(first):
            is_value[value.start() : value.end()] = True
        columns = np.flatnonzero(changed)
        if not is_value[columns].all() or (rows[:, columns] <= _END_BYTE).any():
            return None
        return cls(rows, first, changed)

    def may_have(self, name: bytes) -> bool:
        """Whether any text may have a property; none has it if not."""
        return name + b"\x01" in self._first

    def value(self, name: bytes) -> Rows | None:
        """The values of a property; rows without columns when no text has it.

        Returns:
            None when only text by text shows it: it is there more than once, empty, or without end.
        """
        place = self._place(name)
        return None if place is None else self._rows[:, place]

    def same_value(self, name: bytes) -> bytes | None:
        """The one value that all texts have, empty when none has it; None when they differ."""
        place = self._place(name)
        if place is None or self._changed[place].any():
            return None
        return self._first[place]

    def _place(self, name: bytes) -> slice | None:
        """The places of its values; None when only text by text shows it."""
        mark, text = name + b"\x01", self._first
        at = text.find(mark)
        if at < 0:
            return slice(0)
        start = at + len(mark)
        end = text.find(_END, start)
        is_unclear = (at and text[at - 1] != _END_BYTE) or text.find(mark, start) >= 0
        return None if is_unclear or end <= start else slice(start, end)
