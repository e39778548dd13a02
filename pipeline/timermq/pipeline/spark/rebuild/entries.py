"""The timer entries of the commit log: a data source for the job alone.

======  ==============================================  ========================================
what    rows                                            columns
======  ==============================================  ========================================
done    a record that delivers, rolls or cancels        ``origin_py``, or ``foreign_key`` of
                                                        RocketMQ's, which name no origin
        a delete of ours                                ``taken_py``, and others of ``TakenRow``
keys    a record of the timer topic                     ``origin_py`` (its position) and the
                                                        ``foreign_key`` that it would have
units   a record of the timer topic                     position, slot, order, and the unit of
                                                        52 bytes without its link
======  ==============================================  ========================================

Units are made by the broker's own code, and in its slots. A record that no unit can be made of has
a row without one: the broker itself finds out what is wrong with it, and quarantines it. Deletes of
ours get no unit: what they cancel gets none either (``cancelled``). Deletes that name a key
alone (RocketMQ's) get theirs: the slot knows what they meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition

from timermq.timerlog import UNIT, slot_times
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.record import record_properties
from timermq.timerstore.record_block import RecordBlock

from ...records.foreign_key import ForeignKey, foreign_key_in, pending_key
from ...records.system_topics import TIMER_TOPIC
from ...records.timer_properties import DEQUEUE
from ...records.timer_record import TimerFacts, TimerRecordError, decode_present, deleted_order
from ...stages.enqueue_get import columns_batch, facts_batch
from ...stages.enqueue_put import units_of
from ...stages.roll import window_slots
from ...stages.timer_request import EnqueueBatch
from ..errors import SparkJobError
from ..record_chunks import Damage, RecordChunk, chunks, damaged
from ..tables.declaration import Column, Table
from ..worker import keep_imports
from .cancelled import rows_with, taken_rows
from .plan import RebuildPlan, RebuildSpan
from .unit_sink import UnitSink

DONE = Table(
    name="timermq.rebuild",
    title="What is done, or the records that it may be.",
    columns=(
        Column("origin_py", "long", "position of a timer record"),
        Column("foreign_key", "binary", "by which RocketMQ's deliveries are known: they name none"),
        Column("taken_py", "long", "order of a message that a delete of ours cancels"),
        Column("entry", "long", "entry of a delete, behind which a moved message has to stand"),
        Column("target_py", "long", "the record for which that message stands in"),
    ),
)
UNITS = Table(
    name="timermq.rebuild",
    title="Entries of the timer topic.",
    columns=(
        Column("offset_py", "long", "position of the record"),
        Column("slot_ms", "long", "the slot of its unit"),
        Column("order_py", "long", "position of the message's first record"),
        Column("queue_offset", "long", "the entry, if no unit can be made of it"),
        Column("unit", "binary", "the unit without its link; null if none can be made"),
    ),
)


SOURCE = "timermq.rebuild"

TABLES = {"done": DONE, "keys": DONE, "units": UNITS}
_DONE = DONE.arrow_schema(DONE.names)
_UNITS = UNITS.arrow_schema(UNITS.names)
BLOCK_COUNT = 4096
"""Timer records that are read together; where they are no run they are read one by one."""
_TIMER_TOPIC = TIMER_TOPIC.encode()

Rows = pa.RecordBatch


class EntryReader(DataSourceReader):
    """Reads one of ``TABLES``, a partition for each part of the log."""

    def __init__(self, plan: RebuildPlan, what: str) -> None:
        self.plan = plan
        self.what = what

    def partitions(self) -> Sequence[InputPartition]:
        """The parts of the log."""
        return [InputPartition(span) for span in self.plan.spans] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part.

        Raises:
            SparkJobError: The log is damaged there.
        """
        keep_imports()
        span: RebuildSpan | None = partition.value
        if span is None:
            return
        rows_of = {"done": _done_rows, "keys": _key_rows, "units": self._unit_rows}[self.what]
        for chunk in chunks(span.part, span.start + self.plan.segment_size):
            if isinstance(chunk, Damage):
                raise damaged(span.path, chunk)
            yield from rows_of(chunk)

    def _unit_rows(self, chunk: RecordChunk) -> Iterator[pa.RecordBatch]:
        entries = _timer_entries(chunk)
        entries = entries.only(
            entries.heads["queue_offset"].astype(np.int64) >= self.plan.queue_first
        )
        for first in range(0, len(entries), BLOCK_COUNT):
            rows = np.zeros(len(entries), np.bool_)
            rows[first : first + BLOCK_COUNT] = True
            yield from self._block_rows(entries.only(rows))

    def _block_rows(self, entries: RecordChunk) -> Iterator[pa.RecordBatch]:
        start, end = int(entries.starts[0]), int(entries.ends[-1])
        block = RecordBlock(entries.data[start:end], entries.starts - start, entries.ends - start)
        offset_py = entries.heads["phy_offset"].astype(np.int64)
        size_py = entries.heads["total_size"].astype(np.int32)
        precision_ms = self.plan.precision_ms
        batch = columns_batch(block, offset_py, size_py, precision_ms=precision_ms)
        if batch is None:
            facts = [
                _facts(record, int(offset), precision_ms)
                for record, offset in zip(block.records(), offset_py, strict=True)
            ]
            unknown = np.array([fact is None for fact in facts])
            if unknown.any():
                yield _left_rows(
                    offset_py[unknown], entries.heads["queue_offset"].astype(np.int64)[unknown]
                )
            known = [fact for fact in facts if isinstance(fact, TimerFacts)]
            kept = np.array([isinstance(fact, TimerFacts) for fact in facts])
            batch = facts_batch(known, offset_py[kept], size_py[kept])
        if len(batch):
            yield self._rows(batch)

    def _rows(self, batch: EnqueueBatch) -> pa.RecordBatch:
        plan = self.plan
        targets, rolled = window_slots(
            batch.out_ms,
            batch.offset_py,
            read_ms=plan.read_ms,
            write_ms=plan.write_ms,
            ring_end_ms=plan.ring_end_ms,
            window_ms=plan.window_ms,
            precision_ms=plan.precision_ms,
        )
        units = units_of(batch, targets, rolled, write_ms=plan.write_ms)
        ends = np.arange(0, (len(units) + 1) * UNIT.size, UNIT.size, dtype=np.int32)
        packed = pa.Array.from_buffers(
            pa.binary(),
            len(units),
            [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(units.tobytes())],
        )
        return _batch(
            _UNITS,
            [
                pa.array(batch.offset_py),
                pa.array(slot_times(units)),
                pa.array(batch.order_py),
                pa.nulls(len(units), pa.int64()),
                packed,
            ],
        )


class _Ours:
    """A delete of ours: it needs no unit."""


_OURS = _Ours()


def _facts(record: bytes, offset_py: int, precision_ms: int) -> TimerFacts | _Ours | None:
    """The request of a record; None when no unit can be made of it."""
    try:
        facts = decode_present(record, offset_py, len(record), precision_ms)
    except TimerRecordError:
        return None
    if facts.is_delete and deleted_order(record_properties(record)) is not None:
        return _OURS
    return facts


def _timer_entries(chunk: RecordChunk) -> RecordChunk:
    """The records that the queue of the timer topic holds."""
    entries = chunk.only(chunk.have_topic(_TIMER_TOPIC))
    entries = entries.only(entries.heads["queue_id"] == 0)
    flags = entries.heads["sys_flag"]
    if (flags & _TRANSACTION_BITS).any():
        queued = [read_log_record(entries.record(row)).is_queued for row in range(len(entries))]
        entries = entries.only(np.array(queued, np.bool_))
    return entries


_TRANSACTION_BITS = 0xC
"""Of sysFlag: prepared, commit, rollback."""


def _left_rows(offset_py: np.ndarray[Any, Any], entries: np.ndarray[Any, Any]) -> pa.RecordBatch:
    none = pa.nulls(len(entries), pa.int64())
    return _batch(
        _UNITS,
        [pa.array(offset_py), none, none, pa.array(entries), pa.nulls(len(entries), pa.binary())],
    )


def _done_rows(chunk: RecordChunk) -> Iterator[pa.RecordBatch]:
    origins, named = chunk.origins
    if named.any():
        yield _done(origin_py=pa.array(origins[named].astype(np.int64)))
    taken = taken_rows(_timer_entries(chunk))
    if taken:
        yield _done(
            taken_py=pa.array([row.order_py for row in taken], pa.int64()),
            entry=pa.array([row.entry for row in taken], pa.int64()),
            target_py=pa.array([row.target_py for row in taken], pa.int64()),
        )
    if DEQUEUE not in chunk.data:
        return
    others = chunk.only(~named)
    rows = rows_with(others, DEQUEUE)
    keys = [foreign_key_in(others.record(row)) for row in rows]
    texts = [_text(key) for key in keys if key is not None]
    if texts:
        yield _done(foreign_key=pa.array(texts, pa.binary()))


def _key_rows(chunk: RecordChunk) -> Iterator[pa.RecordBatch]:
    entries = _timer_entries(chunk)
    if len(entries):
        keys = [_text(pending_key(entries.record(row))) for row in range(len(entries))]
        places = pa.array(entries.heads["phy_offset"].astype(np.int64))
        yield _done(origin_py=places, foreign_key=pa.array(keys, pa.binary()))


def _done(**columns: pa.Array[Any]) -> pa.RecordBatch:
    """Rows with some columns of ``DONE``, the others null."""
    size = len(next(iter(columns.values())))
    found: dict[str, pa.Array[Any]] = dict.fromkeys(DONE.names, pa.nulls(size, pa.int64()))
    found["foreign_key"] = pa.nulls(size, pa.binary())
    return _batch(_DONE, list((found | columns).values()))


def _text(key: ForeignKey) -> bytes:
    return b"\x01".join(key)


def _batch(schema: pa.Schema, arrays: list[pa.Array[Any]]) -> pa.RecordBatch:
    # The stubs of pyarrow leave the parameter of its arrays open.
    return pa.RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType]


class RebuildSource(DataSource):
    """Reads the entries, and takes the units that are left of them."""

    @classmethod
    def name(cls) -> str:
        """The name that the job asks for."""
        return SOURCE

    def schema(self) -> str:
        """That of the rows asked for."""
        keep_imports()
        return TABLES[self.options["what"]].ddl()

    def reader(self, schema: types.StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's call
        """The reader of the rows that the option ``what`` names."""
        return EntryReader(RebuildPlan.parse(self.options["plan"]), self.options["what"])

    def writer(
        self,
        schema: types.StructType,
        overwrite: bool,  # noqa: ARG002 - Spark's call
    ) -> DataSourceWriter:
        """The writer that stages units.

        Raises:
            SparkJobError: The columns are others.
        """
        found = [field.name for field in schema.fields]
        expected = list(UNITS.names)
        if found != expected:
            raise SparkJobError(f"{SOURCE}: expected the columns {expected}, found {found}")
        return UnitSink(self.options["path"])
