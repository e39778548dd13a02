# The stubs of pyarrow leave the types of its arrays open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Pieces of some bytes as columns of Arrow, and numbers that are written in digits.

A column of Arrow is one run of bytes and where each value ends in it. Pieces that lie apart become
one by taking every second value of the run that they and the gaps between them make: one step of
Arrow's for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

Bytes = bytes | pa.Buffer
Values: TypeAlias = "pa.Array[Any]"


def pieces(data: Bytes, starts: Places, ends: Places, present: Flags | None = None) -> Values:
    """The pieces of some bytes, as ``binary``.

    Args:
        data: Less than 2 GiB.
        starts: Where each begins, in the order of the bytes.
        ends: Where each ends, not behind the next one's beginning.
        present: False for what has none: null. What stands in the other two there does not count.
    """
    count = len(starts)
    if present is None or present.all():
        places = np.arange(count, dtype=np.int64)
    else:
        places = np.cumsum(present, dtype=np.int64) - 1
        starts, ends = starts[present], ends[present]
    if not len(starts):
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    buffers = [
        None,
        pa.py_buffer(bounds.tobytes()),
        pa.py_buffer(data) if isinstance(data, bytes) else data,
    ]
    run = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    return taken(run, 2 * places, present)


def taken(
    column: Values, places: Places | NDArray[np.intp], present: Flags | None = None
) -> Values:
    """Values by their places; null where ``present`` is false."""
    wanted: Any = pa.array(places, mask=None if present is None else ~present)
    found: Values = column.take(wanted)
    return found


def bounds_of(column: Values) -> Places:
    """The ends of a ``binary`` or ``string`` column's values in its bytes; a 0 before them."""
    ends = column.buffers()[1]
    if ends is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    found = np.frombuffer(memoryview(ends), np.int32, len(column) + 1, column.offset * 4)
    return found.astype(np.int64)


def text(column: Values) -> Values:
    """``binary`` as ``string``; what is no UTF-8 is replaced as ``bytes.decode`` does it."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        values = [
            None if one is None else one.decode("utf-8", "replace") for one in column.to_pylist()
        ]
        return pa.array(values, pa.string())


def numbers_in(column: Values, digits_max: int = NUMBER_DIGITS_MAX) -> tuple[Places, Flags]:
    """The natural numbers that values are in digits.

    Args:
        column: ``binary``.
        digits_max: Of a number.

    Returns:
        The numbers, 0 for what is none, and which ones are: only digits, and not too many.
    """
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    # The two types have the same bytes, and only digits are looked at.
    digits: Values = column.view(pa.string())
    are: Values = pc.ascii_is_decimal(digits).fill_null(False)
    fits = flags_of(are) & (np.diff(bounds_of(column)) <= digits_max)
    found: Values = pc.if_else(pa.array(fits), digits, pa.scalar("0"))
    return np.array(found.cast(pa.int64())), fits


def flags_of(column: Values) -> Flags:
    """A column of booleans without null."""
    found: Flags = column.to_numpy(zero_copy_only=False)
    return found


def distinct(column: Values) -> tuple[list[bytes], NDArray[np.intp]]:
    """The values that there are in a ``binary`` column, and which of them each is; -1 for null."""
    known: Any = column.dictionary_encode()
    which: NDArray[np.intp] = known.indices.fill_null(-1).to_numpy().astype(np.intp)
    return known.dictionary.to_pylist(), which


def are_in(column: Values, wanted: Iterable[bytes]) -> Flags:
    """Which values of a ``binary`` column are among some."""
    return flags_of(pc.is_in(column, pa.array(wanted, pa.binary())))


def have_within(column: Values, pattern: str) -> Flags:
    """Which values of a ``binary`` column without null have a text in them."""
    found: Values = pc.match_substring(column, pattern)
    return flags_of(found)


def joined(*parts: Values | bytes) -> Values:
    """Values of ``binary`` columns, and bytes that all have, put together; null where one is."""
    columns: list[Any] = [pa.scalar(part) if isinstance(part, bytes) else part for part in parts]
    found: Values = pc.binary_join_element_wise(*columns, pa.scalar(b""))
    return found


def first_of(*columns: Values) -> Values:
    """Of each row the first value that is not null."""
    found: Values = pc.coalesce(*columns)
    return found
