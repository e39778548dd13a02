"""``timermq.pending``: what will fire, as ``timermq pending`` lists it.

A unit of the timer log tells slot, order and millisecond of its message. Only for what it does not
tell is the record read: for columns of the record, for units that RocketMQ wrote, for messages that
roll on the way or were linked late, and where a delete names its target by a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, slot_times
from timermq.timerlog.unit import Units, unpack_exact
from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.moved_key import MOVED_MARK
from timermq.timerstore.properties import KEYS_NAME, UNIQ_KEY_NAME, find

from ...records.deduplication import contains
from ...records.timer_record import moved_properties, own_properties
from ..byte_arrays import have_within
from ..file_part import only
from ..level_spans import LevelSpan, level_spans
from ..pending_facts import Deletes, Handled, fires
from ..pending_plan import Entries, Plan
from ..record_chunks import RecordChunk
from ..record_columns import Arrays, record_columns
from ..record_gathering import gathered
from ..store_view import LogView, StoreView
from ..timer_arrays import TimerArrays, read_timers
from ..topic_names import may_be_of
from ..unit_runs import UnitRun
from ..waiting_deletes import WaitingDeletes
from .declaration import Column, Table
from .source import TableReader, TableSource

ENTRIES_PER_SPAN = 100_000

TABLE = Table(
    name="timermq.pending",
    title="The messages that wait and will fire; what is cancelled is not among them.",
    columns=(
        Column("unique_id", "string", "UNIQ_KEY; empty without one"),
        Column("topic", "string", "where the message goes"),
        Column("queue_id", "int", "its queue there"),
        Column("deliver_ms", "long", "the moment asked for"),
        Column("keys", "string", "the user's keys, separated by blanks; empty without any"),
        Column("tags", "string", "the tag; empty without one"),
        Column("phy_offset", "long", "position of the record that waits"),
        Column("rolls", "long", "how often it was rolled"),
        Column("slot_ms", "long", "the slot it is linked in; null without a unit yet"),
        Column("stored_ms", "long", "when the record that waits was stored"),
        Column("size", "int", "bytes of the record that waits"),
        Column("order_py", "long", "position of the message's first record"),
        Column("topic_hash", "int", "Java hash of the topic"),
    ),
)
OF_UNITS = frozenset(("deliver_ms", "phy_offset", "slot_ms", "size", "order_py", "topic_hash"))
"""Columns that units tell."""


@attrs.frozen(eq=False, kw_only=True)
class PendingSpan:
    """Units of the timer log, or entries that have none, and what decides about them."""

    runs: tuple[UnitRun, ...]
    entries: Entries | None
    log: LogView
    read_ms: int
    precision_ms: int
    handled: Handled
    deletes: WaitingDeletes


@attrs.frozen(eq=False)
class _Waiting:
    """Messages that are looked at together."""

    positions: Places
    sizes: Places
    slots: Places | None
    """None for entries without a unit."""


class PendingReader(TableReader[PendingSpan | LevelSpan]):
    """Reads what will fire; the moments asked for bound ``deliver_ms``."""

    table = TABLE
    takes: ClassVar[tuple[str, ...]] = ("topics", "due_from", "due_to", "stored_from", "stored_to")

    def spans(self, view: StoreView) -> list[PendingSpan | LevelSpan]:
        """Units of the timer log, entries without one, then the messages of classic levels."""
        return [*self._timers(view), *level_spans(view)]

    def _timers(self, view: StoreView) -> list[PendingSpan]:
        plan = Plan.of(view, self.options)
        base = PendingSpan(
            runs=(),
            entries=None,
            log=view.log,
            read_ms=view.read_ms,
            precision_ms=view.timer_options.timer_precision_ms,
            handled=plan.handled,
            deletes=plan.deletes,
        )
        found = [
            attrs.evolve(base, runs=one.runs, handled=plan.handled.within(one.bounds))
            for one in plan.tasks
        ]
        positions, sizes = plan.entries.positions, plan.entries.sizes
        for first in range(0, len(positions), ENTRIES_PER_SPAN):
            some = slice(first, first + ENTRIES_PER_SPAN)
            found.append(attrs.evolve(base, entries=Entries(positions[some], sizes[some])))
        return found

    def batches(self, span: PendingSpan | LevelSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk: what units tell, then what their records do."""
        if isinstance(span, LevelSpan):
            for chunk, timers in span.chunks():
                kept = self._asked(chunk, timers)
                if kept.any():
                    yield self._batch(chunk.only(kept), timers.only(kept), None)
            return
        if span.entries is not None:
            waiting = _Waiting(span.entries.positions, span.entries.sizes, None)
            yield from self._from_records(span, waiting)
        for run in span.runs:
            for units in run.waiting(span.read_ms):
                yield from self._from_units(span, units)

    def _from_units(self, span: PendingSpan, units: Units) -> Iterator[pa.RecordBatch]:
        offsets = units["offset_py"].astype(np.int64)
        wanted = ((units["magic"] & MAGIC_DELETE) == 0) & ~span.handled.hold(offsets)
        if self.options.topics:
            wanted &= may_be_of(units["topic_hash"], self.options.topics)
        units = only(units, wanted)
        slots, deletes = slot_times(units), span.deletes.load()
        order, behind, are_exact = unpack_exact(units["reserved"])
        # In a slot on the way the milliseconds are those of the slot asked for, which it hides.
        tells = are_exact & ((units["magic"] & MAGIC_ROLL) == 0)
        due = slots + 1 + behind
        asked = (due >= self.options.due_from) & (due < self.options.due_to)
        kept = ~tells | (asked & ~deletes.cover_orders(slots, order))
        if not kept.all():
            units, slots, due = units[kept], slots[kept], due[kept]
            order, tells = order[kept], tells[kept]
        unclear = ~tells | self._are_unclear(span, deletes, slots)
        positions, sizes = units["offset_py"].astype(np.int64), units["size_py"].astype(np.int64)
        clear = ~unclear & (positions >= span.log.start)
        clear &= positions + sizes <= span.log.end
        if clear.any():
            known: Arrays = {
                "deliver_ms": pa.array(due[clear]),
                "phy_offset": pa.array(positions[clear]),
                "slot_ms": pa.array(slots[clear]),
                "size": pa.array(sizes[clear].astype(np.int32)),
                "order_py": pa.array(order[clear]),
            }
            yield self.batch(known, only(units, clear))
        if unclear.any():
            waiting = _Waiting(positions[unclear], sizes[unclear], slots[unclear])
            yield from self._from_records(span, waiting)

    def _are_unclear(self, span: PendingSpan, deletes: Deletes, slots: Places) -> Flags:
        """Which units do not tell all that is asked about them."""
        options = self.options
        if options.topics or options.wants_stored() or not OF_UNITS.issuperset(self.names):
            return np.ones(len(slots), np.bool_)
        return deletes.may_cover_keys(slots) | contains(span.handled.foreign_slots, slots)

    def _from_records(self, span: PendingSpan, waiting: _Waiting) -> Iterator[pa.RecordBatch]:
        for chunk, rows in gathered(span.log, waiting.positions, waiting.sizes):
            timers = read_timers(chunk, span.precision_ms)
            kept = fires(chunk, timers, span.handled, span.deletes.load())
            kept &= self._asked(chunk, timers)
            if kept.any():
                slots = None if waiting.slots is None else waiting.slots[rows][kept]
                yield self._batch(chunk.only(kept), timers.only(kept), slots)

    def _asked(self, chunk: RecordChunk, timers: TimerArrays) -> Flags:
        options, stored = self.options, chunk.heads["store_ms"]
        found = (timers.deliver_ms >= options.due_from) & (timers.deliver_ms < options.due_to)
        found &= (stored >= options.stored_from) & (stored < options.stored_to)
        if options.topics:
            found &= np.isin(timers.names, options.topics)[timers.topic_of]
        return np.asarray(found, np.bool_)

    def _batch(
        self, chunk: RecordChunk, timers: TimerArrays, slots: Places | None
    ) -> pa.RecordBatch:
        known = _as_sent(chunk, record_columns(chunk, [one for one in self.names if one in _TEXTS]))
        if "unique_id" in known:
            known["unique_id"] = known["unique_id"].fill_null("")
        known |= {
            "topic": timers.topics(),
            "queue_id": pa.array(timers.queue_id.astype(np.int32)),
            "deliver_ms": pa.array(timers.deliver_ms),
            "rolls": pa.array(timers.rolls),
            "slot_ms": pa.nulls(len(chunk), pa.int64()) if slots is None else pa.array(slots),
            "stored_ms": pa.array(chunk.heads["store_ms"]),
            "size": pa.array(chunk.heads["total_size"]),
            "order_py": pa.array(timers.order_py),
            "topic_hash": pa.array(timers.topic_hashes().astype(np.int32)),
        }
        return self.batch(known, chunk.heads)


_TEXTS = frozenset(("unique_id", "keys", "tags"))


def _as_sent(chunk: RecordChunk, known: Arrays) -> Arrays:
    """The texts of records, with the keys that producers gave: of what was moved as well."""
    unique_keys = chunk.found.value(UNIQ_KEY_NAME).fill_null(b"")
    are_moved = {
        row: own_properties(properties)
        for row in np.flatnonzero(have_within(unique_keys, MOVED_MARK.decode())).tolist()
        if moved_properties(properties := chunk.properties[row].as_py())
    }
    for column, name in (("unique_id", UNIQ_KEY_NAME), ("keys", KEYS_NAME)):
        if are_moved and column in known:
            values = known[column].to_pylist()
            for row, properties in are_moved.items():
                values[row] = (find(properties, name) or b"").decode("utf-8", "replace")
            known[column] = pa.array(values, pa.string())
    return known


class PendingSource(TableSource):
    """The table ``timermq.pending``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = PendingReader
