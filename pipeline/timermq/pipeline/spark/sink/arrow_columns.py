"""Columns of Arrow as numpy and Python have them: the one place that knows Arrow's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from timermq.remoting.bulk_block import BulkColumn
from timermq.timerstore.array_types import Flags, Places

Column: TypeAlias = "pa.Array[Any]"
Times = NDArray[np.int64]

# The stubs of its functions tell every type of array apart, which a column does not say.
_functions: Any = pyarrow.compute


def column_of(batch: pa.RecordBatch, name: str) -> Column:
    """A column by its name."""
    columns: Any = batch
    found: Column = columns.column(name)
    return found


def array_of(values: Sequence[object] | NDArray[Any], kind: pa.DataType | None = None) -> Column:
    """An array of some values."""
    arrow: Any = pa
    found: Column = arrow.array(values, kind)
    return found


def is_there(column: Column) -> Flags:
    """Which values are not null."""
    return np.asarray(_functions.is_valid(column))


def integers(column: Column) -> Times:
    """Whole numbers; 0 for null."""
    filled: Any = _functions.fill_null(column, 0)
    return np.asarray(filled).astype(np.int64, copy=False)


def sizes(column: Column) -> Times:
    """Bytes of strings or bytes; 0 for null."""
    return integers(_functions.binary_length(column))


def value_at(column: Column, row: int) -> Any:  # noqa: ANN401 - whatever the column holds
    """One value as Python has it."""
    return column[row].as_py()


def values_of(column: Column) -> list[Any]:
    """All values as Python has them."""
    return column.to_pylist()


def distinct(column: Column) -> list[Any]:
    """The values without null, each once, in the order in which they come."""
    return [one for one in _functions.unique(column).to_pylist() if one is not None]


def codes_of(column: Column) -> tuple[list[Any], Places]:
    """The values, each once, and the number of each row's value; -1 for null."""
    encoded: Any = _functions.dictionary_encode(column)
    codes = np.where(is_there(encoded.indices), integers(encoded.indices), -1)
    return encoded.dictionary.to_pylist(), codes


def equals(column: Column, value: str) -> Flags:
    """Which values are this one."""
    return _flags(_functions.equal(column, value))


def matches(column: Column, pattern: str) -> Flags:
    """Which texts have a part like that (RE2); null has none."""
    return _flags(_functions.match_substring_regex(column, pattern))


def starts_with(column: Column, text: str) -> Flags:
    """Which texts of a column begin with ``text``."""
    return _flags(_functions.starts_with(column, text))


def where(flags: Flags, column: Column) -> Column:
    """The column with null where a flag is not set."""
    found: Column = _functions.if_else(array_of(flags), column, None)
    return found


def first_there(*columns: Column) -> Column:
    """The first value that is not null, row by row."""
    found: Column = _functions.coalesce(*columns)
    return found


def taken(column: Column, places: Places) -> Column:
    """Values by their places; null for a negative one."""
    found: Column = column.take(array_of_places(places))
    return found


def array_of_places(places: Places) -> Column:
    """Places for ``take``; null for a negative one."""
    arrow: Any = pa
    found: Column = arrow.array(places, mask=places < 0)
    return found


def masked(values: Times, is_valid: Flags) -> Column:
    """Numbers with null where a flag is not set."""
    arrow: Any = pa
    found: Column = arrow.array(values, mask=~is_valid)
    return found


def cast(column: Column, kind: pa.DataType) -> Column:
    """The column as another type.

    Raises:
        pyarrow.ArrowInvalid: A value has no such form.
    """
    found: Column = column.cast(kind)
    return found


def bulk_column(column: Column) -> BulkColumn:
    """A column of strings or bytes as a block has it; null is empty."""
    dense: Any = _functions.fill_null(cast(column, pa.binary()), b"")
    _, ends, data = dense.buffers()
    if ends is None or not len(dense):
        return BulkColumn(b"", np.zeros(len(dense), np.uint32))
    places = np.frombuffer(ends, np.int32)[dense.offset : dense.offset + len(dense) + 1]
    first, last = int(places[0]), int(places[-1])
    return BulkColumn(
        memoryview(b"" if data is None else data)[first:last], np.diff(places).astype(np.uint32)
    )


def joined_values(columns: Sequence[tuple[str, Column]]) -> list[bytes]:
    """Each row as one run of bytes: every value behind name and size, nothing for null."""
    empty: Any = pa.scalar(b"", pa.large_binary())
    named: list[Any] = []
    for name, column in columns:
        head: Any = pa.scalar(f"{len(name)}:{name}:".encode(), pa.large_binary())
        sized = cast(cast(_functions.binary_length(_texts(column)), pa.string()), pa.large_binary())
        colon: Any = pa.scalar(b":", pa.large_binary())
        data = cast(_texts(column), pa.large_binary())
        whole = _functions.binary_join_element_wise(head, sized, colon, data, empty)
        named.append(_functions.fill_null(whole, empty))
    found: list[bytes] = _functions.binary_join_element_wise(*named, empty).to_pylist()
    return found


def map_entries(column: Column) -> tuple[Column, Column, Places]:
    """Names and values of all maps, one after the other, and the row of each; no null values."""
    maps: Any = column
    ends: Places = np.asarray(maps.offsets).astype(np.int64)
    counts = np.where(is_there(column), np.diff(ends), 0)
    owners = np.repeat(np.arange(len(column), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    places = np.repeat(ends[:-1] - before, counts) + np.arange(len(owners), dtype=np.int64)
    names, values = taken(maps.keys, places), taken(maps.items, places)
    kept = np.flatnonzero(is_there(values))
    return taken(names, kept), taken(values, kept), owners[kept]


def _texts(column: Column) -> Column:
    """Strings and bytes as they are, numbers and moments in digits."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column
    return cast(cast(column, pa.int64()), pa.string())


def _flags(column: Any) -> Flags:  # noqa: ANN401 - what an untyped function gives
    filled: Any = _functions.fill_null(column, False)
    return np.asarray(filled).astype(np.bool_)
