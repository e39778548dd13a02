"""``timermq.timerlog``: every unit of the timer log.

One numpy type is the whole codec. Blanks between segments, and units that are none, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, UNIT, slot_times
from timermq.timerlog.segment import units_in
from timermq.timerlog.unit import are_units, unpack_exact

from ..file_part import FilePart, column, only
from ..options import INT64_MAX
from ..store_view import StoreView
from ..topic_names import may_be_of
from .declaration import Column, Table, layout_columns
from .source import TableReader, TableSource, cut

CHUNK_UNITS = 65_536
"""Units of a batch: 3.4 MB."""

TABLE = Table(
    name="timermq.timerlog",
    title="Every unit of the timer log, in its order: one a message that was put on the wheel.",
    columns=(
        Column("pos", "long", "position of the unit in the timer log"),
        *layout_columns(UNIT, without=("size",)),
        Column("slot_ms", "long", "the slot it is linked in: `write_ms` + `delay_ms`"),
        Column(
            "deliver_ms",
            "long",
            "the moment asked for; null of RocketMQ's units, of rolls and of late ones",
        ),
        Column(
            "order_py",
            "long",
            "position of the message's first record; null of RocketMQ's and of late ones",
        ),
        Column(
            "is_first",
            "boolean",
            "the message's first unit; null of RocketMQ's and of late ones",
        ),
        Column("is_roll", "boolean", "the slot is one on the way: the message is enqueued again"),
        Column("is_delete", "boolean", "the unit takes another message out of the slot"),
    ),
)


@attrs.frozen
class UnitSpan:
    """A part of one segment, made of whole units."""

    part: FilePart
    precision_ms: int


class TimerLogReader(TableReader[UnitSpan]):
    """Reads units; the moments asked for bound ``deliver_ms``.

    What RocketMQ wrote does not tell it: its slot is compared, and it may be due up to a precision
    later. What only rolls in its slot may be due any time after. Topics are compared by their
    hashes, which is all that a unit has of them.
    """

    table = TABLE
    takes: ClassVar[tuple[str, ...]] = ("topics", "due_from", "due_to")

    def spans(self, view: StoreView) -> list[UnitSpan]:
        """Runs of units within a segment."""
        log, found = view.timer_log, list[UnitSpan]()
        for start, low, high in log.segments(log.start, log.end):
            high = min(high, start + units_in(log.segment_size) * UNIT.size)
            for first, last in cut((high - low) // UNIT.size * UNIT.size, UNIT.size, self.options):
                part = FilePart(log.path(start), start, low + first, low + last)
                found.append(UnitSpan(part, view.timer_options.timer_precision_ms))
        return found

    def batches(self, span: UnitSpan) -> Iterator[pa.RecordBatch]:
        """The rows of a span, up to ``CHUNK_UNITS`` in a batch."""
        for pos, data in span.part.chunks(CHUNK_UNITS * UNIT.size):
            yield self._batch(pos, np.frombuffer(data, UNIT.dtype), span.precision_ms)

    def _batch(self, pos: int, units: NDArray[np.void], precision_ms: int) -> pa.RecordBatch:
        kept = are_units(units)
        slots = slot_times(units)
        order, behind, is_exact = unpack_exact(units["reserved"])
        rolls = (units["magic"] & MAGIC_ROLL) != 0
        # In a slot on the way the milliseconds are those of the slot asked for, which it hides.
        tells = is_exact & ~rolls
        due = np.where(tells, slots + 1 + behind, slots)
        if self.options.topics:
            kept &= may_be_of(units["topic_hash"], self.options.topics)
        if self.options.wants_due():
            last = np.where(tells, due, due + precision_ms)
            last[rolls] = INT64_MAX
            kept &= (last >= self.options.due_from) & (due < self.options.due_to)
        makers: Mapping[str, Callable[[], pa.Array[Any]]] = {
            "pos": lambda: column(pos + np.arange(len(units), dtype=np.int64) * UNIT.size, kept),
            "slot_ms": lambda: column(slots, kept),
            "deliver_ms": lambda: column(due, kept, tells),
            "order_py": lambda: column(order, kept, is_exact),
            "is_first": lambda: column(order == units["offset_py"], kept, is_exact),
            "is_roll": lambda: column(rolls, kept),
            "is_delete": lambda: column((units["magic"] & MAGIC_DELETE) != 0, kept),
        }
        known = {name: make() for name, make in makers.items() if name in self.names}
        return self.batch(known, only(units, kept))


class TimerLogSource(TableSource):
    """The table ``timermq.timerlog``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = TimerLogReader
