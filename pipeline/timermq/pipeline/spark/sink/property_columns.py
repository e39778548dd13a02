"""The properties of many rows as columns: one a name, as a block has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from timermq.remoting.bulk_block import NAMES_MAX
from timermq.timerstore.array_types import Flags
from timermq.timerstore.properties import KEYS_NAME, TAGS_NAME

from .arrow_columns import (
    Column,
    Times,
    codes_of,
    column_of,
    distinct,
    first_there,
    is_there,
    map_entries,
    sizes,
    taken,
)
from .schedule_columns import ScheduleColumns

_OWN_COLUMNS = {"key": KEYS_NAME.decode(), "tag": TAGS_NAME.decode()}
"""Columns to the properties that they are."""


def narrow_batches(batch: pa.RecordBatch, columns: ScheduleColumns) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in runs with at most ``NAMES_MAX`` names, or of one row."""
    rows = batch.num_rows
    if rows < 2 or not columns.has_properties:
        yield batch
        return
    names, _, _ = map_entries(column_of(batch, "properties"))
    if len(distinct(names)) <= NAMES_MAX - len(_OWN_COLUMNS):
        yield batch
        return
    yield from narrow_batches(batch.slice(0, rows // 2), columns)
    yield from narrow_batches(batch.slice(rows // 2), columns)


def property_columns(
    batch: pa.RecordBatch, columns: ScheduleColumns
) -> tuple[dict[str, Column], Flags]:
    """Values by name, null where a row has none; and the rows that name one twice.

    Twice is a name that the map has twice, or that it has beside the column ``key`` or ``tag``.
    """
    rows = batch.num_rows
    twice: Flags = np.zeros(rows, np.bool_)
    found: dict[str, Column] = {}
    if columns.has_properties:
        names, values, owners = map_entries(column_of(batch, "properties"))
        known, codes = codes_of(names)
        for code, name in enumerate(known):
            at = np.flatnonzero(codes == code)
            places = np.full(rows, -1, np.int64)
            places[owners[at]] = at
            twice |= np.bincount(owners[at], minlength=rows) > 1
            found[str(name)] = taken(values, places)
    are_given = {"key": columns.has_key, "tag": columns.has_tag}
    for column, name in _OWN_COLUMNS.items():
        if are_given[column]:
            own = column_of(batch, column)
            if name in found:
                twice |= is_there(own) & is_there(found[name])
                own = first_there(own, found[name])
            found[name] = own
    return found, twice


def properties_size(columns: Mapping[str, Column], rows: int) -> Times:
    """Bytes of each row's properties as the text ``name 0x01 value 0x02`` of them."""
    total: Times = np.zeros(rows, np.int64)
    for name, column in columns.items():
        found = sizes(column)
        total += np.where(found > 0, found + len(name.encode()) + 2, 0)
    return total
