"""Which pending messages will fire: what is handled already, and what is cancelled.

The rules are those of ``PendingTimers.rows``, for columns:

- a slot before the read pointer is read;
- what a record of the log names as its origin was delivered, rolled or cancelled beyond the
  checkpoint; what RocketMQ handled so is known by topic, key, slot and number of rolls;
- a delete takes out whom it names in the slot that its moment lies in, wherever it waits.
"""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.moved_key import first_key
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import UNIQ_KEY_NAME

from ..records.deduplication import AlreadyDone, contains
from ..records.foreign_key import DEFAULTS, KEY_NAMES, ForeignKey
from ..records.timer_record import KEY_MARK, order_name
from .byte_arrays import Values, are_in, distinct, joined, taken
from .record_chunks import RecordChunk
from .timer_arrays import TimerArrays, deleted_names

_NONE = np.empty(0, np.int64)
_MARK = b"\x02"
"""Between the parts of a key: no value of a property holds it."""


@attrs.frozen
class Bounds:
    """Between which numbers some units lie: a task is told no more than concerns them."""

    first_py: int
    last_py: int
    """Positions of their records."""


@attrs.frozen(eq=False, kw_only=True)
class Deletes:
    """The cancelled messages: orders as numbers, keys as text, each with the slot of its moment."""

    orders: Places = attrs.field(default=_NONE)
    """Ascending."""
    order_slots: Places = attrs.field(default=_NONE)
    key_slots: Places = attrs.field(default=_NONE)
    """Ascending, each once."""
    keys: tuple[bytes, ...] = ()
    """Slot and name."""

    def __bool__(self) -> bool:
        return bool(len(self.orders) or self.keys)

    @classmethod
    def of(cls, slots: Places, names: list[bytes]) -> Deletes:
        """The deletes with these slots and names."""
        orders, order_slots, key_slots, keys = list[int](), list[int](), list[int](), set[bytes]()
        for slot_ms, name in zip(slots.tolist(), names, strict=True):
            order = int(name[1:]) if name[:1] == b"\x01" and name[1:].isdigit() else -1
            if 0 <= order < 1 << 63 and order_name(order) == name:
                orders.append(order)
                order_slots.append(slot_ms)
            else:
                key_slots.append(slot_ms)
                keys.add(b"%d%b%b" % (slot_ms, _MARK, name))
        by_order = np.argsort(np.array(orders, np.int64), kind="stable")
        return cls(
            orders=np.array(orders, np.int64)[by_order],
            order_slots=np.array(order_slots, np.int64)[by_order],
            key_slots=np.unique(np.array(key_slots, np.int64)),
            keys=tuple(sorted(keys)),
        )

    def cover_orders(self, out_ms: Places, order_py: Places) -> Flags:
        """Which messages are cancelled by their order."""
        found = np.zeros(len(out_ms), np.bool_)
        rows = np.flatnonzero(contains(self.orders, order_py))
        at = np.searchsorted(self.orders, order_py[rows])
        # Nearly always one delete names a message; each more is one more round.
        while len(rows):
            found[rows] |= self.order_slots[at] == out_ms[rows]
            at = at + 1
            more = at < len(self.orders)
            rows, at = rows[more], at[more]
            same = self.orders[at] == order_py[rows]
            rows, at = rows[same], at[same]
        return found

    def may_cover_keys(self, out_ms: Places) -> Flags:
        """Which slots have a delete that names a key."""
        return contains(self.key_slots, out_ms)

    def cover_keys(self, chunk: RecordChunk, timers: TimerArrays) -> Flags:
        """Which messages are cancelled by their key: as ``key_names``."""
        found = np.zeros(len(chunk), np.bool_)
        among = self.may_cover_keys(timers.out_ms)
        if among.any():
            rows = chunk.only(among)
            slots = pa.array(timers.out_ms[among]).cast(pa.string()).cast(pa.binary())
            keys = _value(rows, UNIQ_KEY_NAME)
            topics = timers.topics().cast(pa.binary()).filter(pa.array(among)).fill_null(b"")
            named = joined(slots, _MARK, topics, KEY_MARK)
            for some in (keys, _first_keys(keys)):
                found[among] |= are_in(joined(named, some), self.keys)
                found[among] |= are_in(joined(named, topics, b"+", some), self.keys)
        return found


@attrs.frozen(eq=False, kw_only=True)
class Handled:
    """The timers handled beyond the checkpoint."""

    origins: Places = attrs.field(default=_NONE)
    """Ascending positions of records."""
    cleaned_to: int = 0
    """Records before it were cleaned: they are done."""
    foreign: tuple[bytes, ...] = ()
    """The timers handled by RocketMQ, by its keys."""
    foreign_slots: Places = attrs.field(default=_NONE)
    """The slots of these keys, ascending; a slot that is no number has none."""

    @classmethod
    def of(cls, done: AlreadyDone) -> Handled:
        """Take over what recovery found to be done."""
        keys = [key for key, places in done.foreign.items() if places]
        return attrs.evolve(cls.with_keys(done.origins, keys), cleaned_to=done.cleaned_to)

    @classmethod
    def with_keys(cls, origins: Places, foreign: list[ForeignKey]) -> Handled:
        """The same of positions and keys."""
        slots = [slot for _, _, out, _ in foreign if (slot := number_in(out)) is not None]
        return cls(
            origins=origins,
            foreign=tuple(sorted({_MARK.join(key) for key in foreign})),
            foreign_slots=np.unique(np.array(slots, np.int64)),
        )

    def within(self, bounds: Bounds) -> Handled:
        """The part that can concern some units."""
        first, last = np.searchsorted(self.origins, [bounds.first_py, bounds.last_py + 1])
        return attrs.evolve(self, origins=self.origins[first:last])

    def hold(self, positions: Places) -> Flags:
        """Which records were delivered, rolled or cancelled."""
        return contains(self.origins, positions) | (positions < self.cleaned_to)

    def hold_foreign(self, chunk: RecordChunk) -> Flags:
        """Which records of a chunk RocketMQ handled, a flag each."""
        if not self.foreign:
            return np.zeros(len(chunk), np.bool_)
        topic, unique_key, out, rolls = map(partial(_value, chunk), KEY_NAMES, DEFAULTS)
        keys = joined(topic, _MARK, unique_key, _MARK, out, _MARK, rolls)
        return are_in(keys, self.foreign)


def fires(chunk: RecordChunk, timers: TimerArrays, handled: Handled, deletes: Deletes) -> Flags:
    """Which records of the timer topic that wait, and have no origin's mark, will be delivered."""
    found = timers.good & ~timers.is_delete & ~handled.hold_foreign(chunk)
    found &= ~deletes.cover_orders(timers.out_ms, timers.order_py)
    return found & ~deletes.cover_keys(chunk, timers)


def named_by(chunk: RecordChunk, timers: TimerArrays) -> tuple[Places, list[bytes]]:
    """The deletes among some records: the slots of their moments, and whom they name."""
    names = deleted_names(chunk)
    are = _are_named(names, timers)
    known: list[bytes | None] = names.to_pylist()
    return timers.out_ms[are], [known[row] or b"" for row in np.flatnonzero(are).tolist()]


def name_another(chunk: RecordChunk, timers: TimerArrays) -> Flags:
    """Which of some records are deletes."""
    return _are_named(deleted_names(chunk), timers)


def _are_named(names: Values, timers: TimerArrays) -> Flags:
    return np.asarray(names.is_valid().to_numpy(zero_copy_only=False) & timers.good, np.bool_)


def _first_keys(keys: Values) -> Values:
    """Of each unique key in a record the one that its producer gave: as ``first_key``."""
    known, which = distinct(keys)
    return taken(pa.array(map(first_key, known), pa.binary()), which)


def _value(chunk: RecordChunk, name: bytes, default: bytes = b"") -> Values:
    return chunk.found.value(name).fill_null(default)
