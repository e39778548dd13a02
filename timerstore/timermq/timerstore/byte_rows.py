"""Bytes of many records at once: rows of one width, and pieces of any.

What many records have in the same place is read, compared and written with array operations on
rows. They cost nearly the same for one row as for a hundred: who has few records takes them one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places, Rows
from .number_text import NUMBER_DIGITS_MAX

_ZERO = ord("0")
_POWERS = 10 ** np.arange(NUMBER_DIGITS_MAX, -1, -1, dtype=np.int64)


def rows_at(data: bytes, places: Places, size: int) -> Rows:
    """``size`` bytes from each place on, a row each; IndexError when they are not in there."""
    # One possible row a byte, as a view; those that are wanted are copied, each as a whole.
    count = max(len(data) - size + 1, 0)
    windows = np.ndarray(count, f"V{size}", data, strides=(1,))
    return windows[places].view(np.uint8).reshape(len(places), size)


def rows_like(text: bytes, count: int, columns: Iterable[tuple[int, Rows]]) -> Rows:
    """``count`` rows with the same text, but for what other rows say from some positions on."""
    made = np.empty((count, len(text)), np.uint8)
    made[:] = np.frombuffer(text, np.uint8)
    for start, rows in columns:
        made[:, start : start + rows.shape[1]] = rows
    return made


def numbers_in(rows: Rows) -> NDArray[np.int64] | None:
    """The numbers that rows of digits are; None when one is none, signs and blanks too.

    Args:
        rows: Of 1 to ``NUMBER_DIGITS_MAX`` bytes.
    """
    digits = rows - np.uint8(_ZERO)
    if digits.max(initial=0) > 9:
        return None
    return digits @ _POWERS[-rows.shape[1] :]


def digits_of(numbers: NDArray[np.int64], size: int) -> Rows:
    """Numbers as rows of ``size`` digits, with zeros before them; none has more digits."""
    least, most = b"%0*d" % (size, int(numbers.min())), b"%0*d" % (size, int(numbers.max()))
    # Numbers of a batch lie near each other: only the last digits differ.
    same = next((at for at in range(size) if least[at] != most[at]), size)
    if same == size:
        return rows_like(least, len(numbers), ())
    digits = numbers[:, None] // _POWERS[same - size :] % 10 + _ZERO
    return rows_like(least, len(numbers), [(same, digits.astype(np.uint8))])


def distinct(numbers: NDArray[np.int64]) -> tuple[list[int], NDArray[np.intp]]:
    """The numbers that there are, ascending, and which of them each is."""
    if int(numbers.min()) == int(numbers.max()):
        return [int(numbers[0])], np.zeros(len(numbers), np.intp)
    found, which = np.unique(numbers, return_inverse=True)
    return found.tolist(), which


def digit_counts(numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    """How many digits natural numbers have."""
    return np.maximum(np.searchsorted(_POWERS[::-1], numbers, side="right"), 1)


def joined_rows(count: int, pieces: Iterable[bytes | Rows]) -> Rows:
    """Rows of pieces that follow each other: texts that all have, and rows of each."""
    text, columns = b"", list[tuple[int, Rows]]()
    for piece in pieces:
        if isinstance(piece, bytes):
            text += piece
        else:
            columns.append((len(text), piece))
            text += bytes(piece.shape[1])
    return rows_like(text, count, columns)


@attrs.define(eq=False, slots=False)
class Pieces:
    """A piece of some bytes for each record."""

    data: bytes
    starts: Places
    ends: Places

    @classmethod
    def of_rows(cls, rows: Rows) -> Pieces:
        """Make a piece of each row."""
        ends = np.arange(1, len(rows) + 1, dtype=np.int64) * rows.shape[1]
        made = cls(rows.tobytes(), ends - rows.shape[1], ends)
        made.rows = rows
        return made

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Places:
        """Number of bytes of each piece."""
        return self.ends - self.starts

    @cached_property
    def rows(self) -> Rows | None:
        """The pieces as rows; None when they are not of one size, or there are none."""
        sizes = self.sizes
        if not len(sizes) or int(sizes.min()) != int(sizes.max()) or not sizes[0]:
            return None
        return rows_at(self.data, self.starts, int(sizes[0]))

    def each(self) -> list[bytes]:
        """The bytes of each piece, in order."""
        data = self.data
        places = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [data[start:end] for start, end in places]
