"""The requests of records of the timer topic, as columns.

The meaning is that of ``timer_record.decode_timer``. Two forms are read as columns: our own
records, rolled or not, and Java's, whose keys stand in any order. What has neither form, or says
something that does not fit, is given to ``decode_timer`` itself, which reads it or says what is
wrong with it.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.properties import REAL_QID_NAME, REAL_TOPIC_NAME

from ..records.destination import QUEUE_ID_DIGITS_MAX
from ..records.system_topics import destination_fault
from ..records.timer_properties import (
    DELAY_UNITS_MS,
    DELETE_FOR_NAME,
    DELETE_NAME,
    DELETE_ORDER_NAME,
    DELIVER,
    DELIVER_NAME,
    DEQUEUE_NAME,
    NO_LEVEL,
    ORDER_NAME,
    OUT,
    OUT_NAME,
    ROLL_TIMES_NAME,
)
from ..records.timer_record import (
    DELIVER_SIZE,
    KEY_MARK,
    MS_DIGITS,
    OUT_MAX_MS,
    OUT_SIZE,
    TimerRecordError,
    decode_timer,
)
from .byte_arrays import Values, distinct, first_of, joined, numbers_in, taken, text
from .property_arrays import Found
from .record_chunks import RecordChunk

_DELAY_MAX_MS = 10**15
_STORED_MAX_MS = 10**18
"""More than any slot, and sums of the two fit 64 bits."""


@attrs.define(eq=False)
class TimerArrays:
    """A row a record; what ``decode_timer`` refuses has a fault, and numbers that do not count."""

    deliver_ms: Places
    out_ms: Places
    names: list[str]
    """Real topics, some of them perhaps more than once."""
    topic_of: NDArray[np.intp]
    """Which of them each has."""
    queue_id: Places
    order_py: Places
    rolls: Places
    is_delete: Flags
    faults: dict[int, str]
    """By row: the name of the reason."""

    @property
    def good(self) -> Flags:
        """False where there is a fault."""
        found = np.ones(len(self.out_ms), np.bool_)
        found[list(self.faults)] = False
        return found

    def only(self, kept: Flags) -> TimerArrays:
        """Some of the rows, none with a fault."""
        return TimerArrays(
            self.deliver_ms[kept],
            self.out_ms[kept],
            self.names,
            self.topic_of[kept],
            self.queue_id[kept],
            self.order_py[kept],
            self.rolls[kept],
            self.is_delete[kept],
            {},
        )

    def topics(self) -> Values:
        """The real topics, null where there is a fault."""
        return taken(pa.array(self.names, pa.string()), self.topic_of, self.good)

    def topic_hashes(self) -> Places:
        """Java's hashes of the real topics."""
        return np.array(list(map(java_hash, self.names)), np.int64)[self.topic_of]


def read_timers(chunk: RecordChunk, precision_ms: int) -> TimerArrays:
    """Read records of the timer topic.

    Args:
        chunk: The records.
        precision_ms: Width of a slot.
    """
    form = _Form(chunk, precision_ms)
    made = form.read()
    for row in np.flatnonzero(~form.good).tolist():
        _read_one(made, chunk, row, precision_ms)
    return made


class _Form:
    """The properties of a chunk that say what a timer asks for."""

    def __init__(self, chunk: RecordChunk, precision_ms: int) -> None:
        self.chunk, self.precision_ms = chunk, precision_ms
        self.texts = chunk.found
        self.text_starts, self.text_ends = self.texts.bounds[:-1], self.texts.bounds[1:]
        self.good = np.ones(len(chunk), np.bool_)
        """Of the two forms, and fitting."""

    def read(self) -> TimerArrays:
        find = self.texts.find
        real, qid = find(REAL_TOPIC_NAME), find(REAL_QID_NAME)
        deliver, out = find(DELIVER_NAME), find(OUT_NAME)
        rolled, order = find(ROLL_TIMES_NAME), find(ORDER_NAME)
        ours = self._are_ours(real)
        self.good &= ~ours | self._stand_in_order(real, qid, deliver, out, rolled, order)
        positions = self.chunk.heads["phy_offset"]
        out_ms = self._number(out, required=True)
        order_py = np.where(order.present, self._number(order), positions)
        self.good &= order_py <= positions
        rolls = self._number(rolled)
        self.good &= (out_ms % self.precision_ms == 0) & (out_ms <= OUT_MAX_MS)
        moment, is_number = numbers_in(self.texts.values(deliver))
        latest = out_ms + self.precision_ms
        fits = is_number & (out_ms < moment) & (moment <= latest)
        self.good &= ~ours | fits
        deliver_ms = np.where(fits, moment, latest)
        foreign = np.flatnonzero(~ours)
        if len(foreign):
            deliver_ms = np.where(ours, deliver_ms, self._delayed(deliver_ms, out_ms, rolls))
        names, topic_of, queue_ids = self._destinations(real, qid)
        return TimerArrays(
            deliver_ms=deliver_ms,
            out_ms=out_ms,
            names=names,
            topic_of=topic_of,
            queue_id=queue_ids,
            order_py=order_py,
            rolls=rolls,
            is_delete=find(DELETE_NAME).present,
            faults={},
        )

    def _number(self, found: Found, *, required: bool = False) -> Places:
        numbers, are = numbers_in(self.texts.values(found))
        self.good &= are if required else are | ~found.present
        return numbers

    def _are_ours(self, real: Found) -> Flags:
        """As ``_is_ours`` says; what is not clear is not good."""
        # The last one counts, with a value or without: one without is for `decode_timer` to judge.
        last = self.texts.find(REAL_TOPIC_NAME, may_be_empty=True)
        self.good &= last.starts == real.starts
        ends = self.text_ends
        ours = last.starts > self.text_starts
        ours &= last.starts - DELIVER_SIZE >= self.text_starts
        ours &= ends - OUT_SIZE >= self.text_starts
        ours = self.texts.have(last.starts - DELIVER_SIZE, DELIVER, ours)
        return self.texts.have(ends - OUT_SIZE, OUT, ours)

    def _stand_in_order(
        self, real: Found, qid: Found, deliver: Found, out: Found, rolled: Found, order: Found
    ) -> Flags:
        """Moment, topic, queue, what rolls add, slot: one behind the other up to the end."""
        stand: Flags = (deliver.starts == real.starts - DELIVER_SIZE) & (
            deliver.ends == real.starts - 1
        )
        stand &= deliver.ends - deliver.value_starts == MS_DIGITS
        stand &= (out.starts == self.text_ends - OUT_SIZE) & (out.ends == self.text_ends - 1)
        stand &= qid.starts == real.ends + 1
        was_rolled = rolled.present | order.present
        marks = out.starts - len(NO_LEVEL)
        has_level = self.texts.have(marks, NO_LEVEL, stand & (marks > qid.ends))
        end = np.where(has_level, marks, out.starts)
        in_order = (rolled.starts == qid.ends + 1) & (order.starts == rolled.ends + 1)
        in_order &= order.ends + 1 == end
        not_rolled = ~was_rolled & (qid.ends + 1 == end)
        stand &= not_rolled | (was_rolled & in_order)
        return stand

    def _delayed(self, deliver_ms: Places, out_ms: Places, rolls: Places) -> Places:
        """The moments of Java's records, as ``_foreign_deliver_ms``."""
        latest = out_ms + self.precision_ms
        stored = np.clip(self.chunk.heads["store_ms"], -_STORED_MAX_MS, _STORED_MAX_MS)
        for key, unit_ms in reversed(DELAY_UNITS_MS):
            found = self.texts.find(key)
            delay, is_number = numbers_in(self.texts.values(found))
            delay = np.minimum(delay, _DELAY_MAX_MS // unit_ms) * unit_ms
            asked = np.maximum(out_ms + 1, np.minimum(stored + delay, latest))
            asked = np.where((rolls > 0) | ~is_number, latest, asked)
            deliver_ms = np.where(found.present, asked, deliver_ms)
        return deliver_ms

    def _destinations(self, real: Found, qid: Found) -> tuple[list[str], NDArray[np.intp], Places]:
        queue_ids, are = numbers_in(self.texts.values(qid), QUEUE_ID_DIGITS_MAX)
        self.good &= are & real.present
        topics, topic_of = distinct(self.texts.values(real))
        names = [topic.decode("utf-8", "replace") for topic in topics]
        legal = [destination_fault(name) is None for name in names]
        self.good &= np.array([*legal, False])[topic_of]
        return [*names, ""], topic_of, queue_ids


def _read_one(made: TimerArrays, chunk: RecordChunk, row: int, precision_ms: int) -> None:
    phy_offset = int(chunk.heads["phy_offset"][row])
    try:
        facts = decode_timer(chunk.record(row), phy_offset, precision_ms)
    except TimerRecordError as error:
        made.faults[row] = error.reason.value
        return
    made.deliver_ms[row], made.out_ms[row] = facts.deliver_ms, facts.out_ms
    made.topic_of[row], made.queue_id[row] = len(made.names), facts.destination.queue_id
    made.names.append(facts.destination.topic)
    made.order_py[row], made.rolls[row] = facts.order_py, facts.rolls
    made.is_delete[row] = facts.is_delete


def deleted_names(chunk: RecordChunk) -> Values:
    """The names in deletes, null for others: as ``deleted_name``."""
    orders = _named_orders(chunk)
    topics = chunk.found.value(REAL_TOPIC_NAME).fill_null(b"")
    return first_of(
        joined(b"\x01", orders), joined(topics, KEY_MARK, chunk.found.value(DELETE_NAME))
    )


def deleted_orders(chunk: RecordChunk) -> tuple[Places, Flags]:
    """The orders that deletes name, and which records name one that is a number."""
    return numbers_in(_named_orders(chunk))


def _named_orders(chunk: RecordChunk) -> Values:
    """The orders that deletes name, null for others: as ``deleted_order``."""
    orders = chunk.found.value(DELETE_ORDER_NAME)
    rolled = chunk.found.value(DEQUEUE_NAME).is_valid()
    for name in (ORDER_NAME, DELETE_FOR_NAME):
        rolled = pc.and_(rolled, chunk.found.value(name).is_null())
    named: Values = pc.if_else(rolled, pa.scalar(None, orders.type), orders)
    return named


def deleted_keys(chunk: RecordChunk) -> Values:
    """The keys that deletes name, null for others."""
    return text(chunk.found.value(DELETE_NAME))
