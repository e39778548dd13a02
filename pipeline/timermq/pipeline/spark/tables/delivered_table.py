"""``timermq.delivered``: the messages that have reached their topics.

A record that timermq delivered names the record that waited, as its origin. One that RocketMQ
delivered names none and is known by the moment it was taken from the wheel (``TIMER_DEQUEUE_MS``).
What goes back to the timer topic, and what was quarantined, has not been delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from timermq.timerstore.array_types import Flags, Places

from ...records.system_topics import OWN_TOPICS, TIMER_TOPIC
from ...records.timer_properties import DELIVER_NAME, DEQUEUE_NAME, OUT_NAME
from ..byte_arrays import numbers_in
from ..log_places import LogSpan, log_spans
from ..log_stream import LogStream
from ..record_chunks import RecordChunk
from ..record_columns import Arrays, are_asked_for, record_columns
from ..store_view import StoreView
from .declaration import Column, Table
from .source import TableReader, TableSource, wanted

TABLE = Table(
    name="timermq.delivered",
    title="The messages that have reached their topics, in the order of their delivery.",
    columns=(
        Column("topic", "string", "where the message is"),
        Column("queue_id", "int", "its queue"),
        Column("queue_offset", "long", "its number in the queue"),
        Column("phy_offset", "long", "position of the delivered record"),
        Column("stored_ms", "long", "when it was delivered, by the broker's clock"),
        Column("deliver_ms", "long", "the moment asked for; of RocketMQ's the last of the slot"),
        Column("lateness_ms", "long", "`stored_ms` less `deliver_ms`"),
        Column("origin_py", "long", "position of the record that waited; null of RocketMQ's"),
        Column("unique_id", "string", "UNIQ_KEY; null without one"),
        Column("keys", "string", "the user's keys, separated by blanks; empty without any"),
        Column("tags", "string", "the tag; empty without one"),
        Column("size", "int", "bytes of the delivered record"),
        Column("sys_flag", "int", "see SysFlag; bit 0: the body is compressed"),
        Column("properties", "binary", "name 0x01 value 0x02 and so on, as stored"),
        Column("body", "binary", "as stored"),
    ),
)
_FROM_HEAD = {"stored_ms": "store_ms", "size": "total_size"}
"""Columns that have another name in a head."""


class DeliveredReader(TableReader[LogSpan]):
    """Reads deliveries; the moments asked for bound ``deliver_ms``."""

    table = TABLE
    is_of_log = True
    takes: ClassVar[tuple[str, ...]] = (
        "topics",
        "stored_from",
        "stored_to",
        "due_from",
        "due_to",
        "damage",
        "rows_per_batch",
    )

    def spans(self, view: StoreView) -> list[LogSpan]:
        """Stretches of the commit log."""
        return log_spans(view, view.log.start, view.log.end, self.options)

    def batches(self, span: LogSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk; damage ends the job, unless it is passed over (``damage=report``)."""
        for found in span.records(is_damage_told=self.options.damage == "report"):
            if not isinstance(found, RecordChunk):
                continue
            chunk = found.only(are_asked_for(found, self.options))
            chunk = chunk.only(are_deliveries(chunk))
            if len(chunk):
                yield self._batch(chunk, span.precision_ms)

    def _batch(self, chunk: RecordChunk, precision_ms: int) -> pa.RecordBatch:
        names, known = self.names, Arrays()
        if self.options.wants_due() or {"deliver_ms", "lateness_ms"}.intersection(names):
            deliver_ms, are = delivered_for(chunk, precision_ms)
            if self.options.wants_due():
                kept = are & (deliver_ms >= self.options.due_from)
                kept &= deliver_ms < self.options.due_to
                chunk, deliver_ms, are = chunk.only(kept), deliver_ms[kept], are[kept]
            known["deliver_ms"] = pa.array(deliver_ms, mask=~are)
            known["lateness_ms"] = pa.array(chunk.heads["store_ms"] - deliver_ms, mask=~are)
        known |= record_columns(chunk, names)
        known |= {name: pa.array(chunk.heads[field]) for name, field in _FROM_HEAD.items()}
        return self.batch(known, chunk.heads)


def are_deliveries(chunk: RecordChunk) -> Flags:
    """Which records are delivered messages."""
    _, named = chunk.origins
    among = np.ones(len(chunk), np.bool_)
    for topic in (TIMER_TOPIC, *OWN_TOPICS):
        among &= ~chunk.have_topic(topic.encode())
    found = among & named
    rest = np.flatnonzero(among & ~named)
    if len(rest):
        of_java = chunk.only(among & ~named).found.find(DEQUEUE_NAME)
        found[rest] = of_java.present
    return found


def delivered_for(chunk: RecordChunk, precision_ms: int) -> tuple[Places, Flags]:
    """The moments that delivered messages were asked for, and which of them tell it.

    Java keeps a moment only if the producer gave one, and the slot always: of a delay the moment
    lies in the slot, and RocketMQ delivers when the slot is over.
    """
    texts = chunk.found
    deliver_ms, are = numbers_in(texts.value(DELIVER_NAME))
    _, named = chunk.origins
    slots, have_slot = numbers_in(texts.value(OUT_NAME))
    latest = slots + precision_ms
    fits = are & (slots < deliver_ms) & (deliver_ms <= latest)
    by_slot = ~named & have_slot & ~fits
    return np.where(by_slot, latest, deliver_ms), are | by_slot


class DeliveredSource(TableSource):
    """The table ``timermq.delivered``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = DeliveredReader
    is_stream: ClassVar[bool] = True

    def streamReader(self, schema: types.StructType) -> LogStream:
        """The reader of the columns of a schema as a stream."""
        return LogStream(DeliveredReader(self.read_options, wanted(DeliveredReader.table, schema)))
