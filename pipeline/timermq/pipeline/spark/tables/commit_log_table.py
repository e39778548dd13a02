"""``timermq.commitlog``: every record of the commit log.

What is not asked for is not worked out: bodies are copied, properties looked through, and timers
decoded only for the columns that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from timermq.timerstore.record_layout import HEAD

from ...records.timer_record import TIMER_TOPIC
from ..byte_arrays import taken
from ..log_places import LogSpan, log_spans
from ..log_stream import LogStream
from ..record_chunks import Damage, RecordChunk
from ..record_columns import Arrays, are_asked_for, record_columns
from ..store_view import StoreView
from ..timer_arrays import deleted_keys, deleted_orders, read_timers
from .declaration import ARROW, Column, Table, layout_columns
from .source import TableReader, TableSource, wanted

TABLE = Table(
    name="timermq.commitlog",
    title="Every record of the commit log, in its order, those of internal topics too.",
    columns=(
        *layout_columns(HEAD, without=("born_host", "store_host")),
        Column("born_host", "string", "producer's address and port"),
        Column("store_host", "string", "broker's address and port"),
        Column("topic", "string", "topic of the record; an internal one while a message waits"),
        Column("unique_id", "string", "UNIQ_KEY; null without one"),
        Column("keys", "string", "the user's keys, separated by blanks; empty without any"),
        Column("tags", "string", "the tag; empty without one"),
        Column("properties", "binary", "name 0x01 value 0x02 and so on, as stored"),
        Column("body", "binary", "as stored: compressed if `sys_flag` says so"),
        Column("origin_py", "long", "the record that it delivers, rolls, cancels or quarantines"),
        Column("deliver_ms", "long", "in the timer topic: the moment asked for"),
        Column("out_ms", "long", "… the slot that the moment lies in"),
        Column("real_topic", "string", "… where the message goes"),
        Column("real_queue_id", "int", "… its queue there"),
        Column("order_py", "long", "… position of the message's first record"),
        Column("rolls", "long", "… how often it was rolled"),
        Column("is_delete", "boolean", "… it cancels another message"),
        Column("delete_key", "string", "… that message's key, as RocketMQ names it"),
        Column("delete_order", "long", "… that message's `order_py`, as timermq names it"),
        Column("timer_fault", "string", "… why it is no timer; then the other eight are null"),
        Column("damage", "string", "what is wrong where no record stands: option `damage`"),
    ),
)
_OF_TIMERS = frozenset(
    column.name for column in TABLE.columns[TABLE.names.index("deliver_ms") : -1]
)
"""Columns for which timers have to be decoded."""


class CommitLogReader(TableReader[LogSpan]):
    """Reads records; ``topics`` are those of the records themselves."""

    table = TABLE
    is_of_log = True
    takes: ClassVar[tuple[str, ...]] = (
        "topics",
        "stored_from",
        "stored_to",
        "damage",
        "rows_per_batch",
    )

    def spans(self, view: StoreView) -> list[LogSpan]:
        """Cut the commit log into stretches, each within a segment."""
        return log_spans(view, view.log.start, view.log.end, self.options)

    def batches(self, span: LogSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk; a damaged place is a row of its own."""
        for found in span.records(is_damage_told=self.options.damage == "report"):
            if isinstance(found, Damage):
                yield self._damage(found)
                continue
            chunk = found.only(are_asked_for(found, self.options))
            if len(chunk):
                yield self._batch(chunk, span.precision_ms)

    def _batch(self, chunk: RecordChunk, precision_ms: int) -> pa.RecordBatch:
        known = record_columns(chunk, self.names)
        if _OF_TIMERS.intersection(self.names):
            known |= _timer_columns(chunk, precision_ms)
        if "damage" in self.names:
            known["damage"] = pa.nulls(len(chunk), pa.string())
        return self.batch(known, chunk.heads)

    def _damage(self, damage: Damage) -> pa.RecordBatch:
        """A row that says where, how long and why, and nothing else."""
        told = {
            "phy_offset": damage.phy_offset,
            "total_size": damage.end - damage.phy_offset,
            "damage": damage.reason,
        }
        known: Arrays = {
            name: pa.array([told.get(name)], ARROW[self.table.column(name).type])
            for name in self.names
        }
        return self.batch(known, np.empty(1, np.void))


def _timer_columns(chunk: RecordChunk, precision_ms: int) -> Arrays:
    """The requests of records of the timer topic; null for all others."""
    are = chunk.have_topic(TIMER_TOPIC.encode())
    of_topic = chunk.only(are)
    timers = read_timers(of_topic, precision_ms)
    none, good = ~timers.good, timers.good
    orders, are_orders = deleted_orders(of_topic)
    faults = [timers.faults.get(row) for row in range(len(of_topic))] if timers.faults else None
    columns: Arrays = {
        "deliver_ms": pa.array(timers.deliver_ms, mask=none),
        "out_ms": pa.array(timers.out_ms, mask=none),
        "real_topic": timers.topics(),
        "real_queue_id": pa.array(timers.queue_id.astype(np.int32), mask=none),
        "order_py": pa.array(timers.order_py, mask=none),
        "rolls": pa.array(timers.rolls, mask=none),
        "is_delete": pa.array(timers.is_delete, mask=none),
        "delete_key": deleted_keys(of_topic),
        "delete_order": pa.array(orders, mask=~(are_orders & good)),
        "timer_fault": pa.nulls(len(of_topic), pa.string())
        if faults is None
        else pa.array(faults, pa.string()),
    }
    if are.all():
        return columns
    return {name: taken(column, np.cumsum(are) - 1, are) for name, column in columns.items()}


class CommitLogSource(TableSource):
    """The table ``timermq.commitlog``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = CommitLogReader
    is_stream: ClassVar[bool] = True

    def streamReader(self, schema: types.StructType) -> LogStream:
        """The reader of the columns of a schema as a stream."""
        return LogStream(CommitLogReader(self.read_options, wanted(CommitLogReader.table, schema)))
