"""Rows for the sink, as Spark would hand them over, and a broker's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from timermq.pipeline.spark.sink.schedule_columns import ScheduleColumns
from timermq.remoting.bulk import BulkLimits

JOB_MS = 1_795_226_657_000
DAY_MS = 86_400_000
TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "body": pa.binary(),
    "deliver_at": pa.int64(),
    "delay_ms": pa.int64(),
    "level": pa.int32(),
    "key": pa.string(),
    "tag": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
}
LIMITS = BulkLimits(
    precision_ms=1000,
    delay_max_ms=3 * DAY_MS,
    level_ms=(1000, 5000),
    body_size_max=100,
    properties_size_max=400,
    own_properties_size=100,
    block_size_max=1 << 20,
    block_rows_max=65_536,
    part_size_max=1 << 30,
    parts_max=10_000,
)

Row = Mapping[str, object]


def row(**given: object) -> Row:
    """A row that any broker takes, but for what is given."""
    return {"topic": "T", "body": b"x", "deliver_at": JOB_MS + 5, **given}


def batch_of(rows: Sequence[Row], **types: pa.DataType) -> pa.RecordBatch:
    """Rows as a batch of Arrow, with these types of columns."""
    names = list(dict.fromkeys(name for one in rows for name in one))
    kinds = {**TYPES, **types}
    arrow: Any = pa
    arrays = [arrow.array([one.get(name) for one in rows], kinds[name]) for name in names]
    batch: pa.RecordBatch = arrow.RecordBatch.from_arrays(arrays, names=names)
    return batch


def columns_of(batch: pa.RecordBatch) -> ScheduleColumns:
    """Which columns a batch has."""
    names = batch.schema.names
    schema: Any = batch.schema
    return ScheduleColumns({name: schema.field(name).type for name in names})


def map_of(one: Row) -> dict[str, str | None]:
    """The properties of a row."""
    return cast("dict[str, str | None] | None", one["properties"]) or {}
