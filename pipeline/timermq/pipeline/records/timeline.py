"""What RocketMQ's RocksDB timers did, told by the commit log alone.

With ``timerRocksDBEnable`` a timer waits in RocksDB under its slot time and unique key. Its record
stands in the timer topic as for the wheel, but later events leave other traces than the wheel's:

===========  ======================================================================================
put          a record of the timer topic; the same key once more takes the place of the first
roll         the record once more, with ``TIMER_ROLL_LABEL``; it takes the place of those before it
delete       a record that names the key, alone or behind its topic; it acts as soon as it is read
delivery     a record of the real topic with ``TIMER_OUT_MS`` and without ``REAL_TOPIC``; deliveries
             by the wheel have both
===========  ======================================================================================

None of them names the record that it is about. So all are sorted by topic, unique key and slot
time: a record is done if a delivery, a delete or a roll of its key stands behind it. A roll behind
a delete, which RocketMQ had under way, is done as well. (RocketMQ's key has no topic, so it loses
one of two messages that differ in the topic alone. Here both stay.)

Source: Java ``Timeline``, ``TimerMessageRocksDBStore.convertMessage``, ``TimerRocksDBRecord``.
"""

from __future__ import annotations

import enum
from array import array

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties, record_topic

from .deduplication import contains
from .delete_message import deleted_key
from .timer_properties import (
    DELETE_NAME,
    DELETE_ORDER_NAME,
    OUT,
    OUT_NAME,
    ROLL_LABEL_NAME,
)
from .timer_record import TIMER_TOPIC

_TOPIC = TIMER_TOPIC.encode()


class Trace(enum.IntEnum):
    """What a record says about the timer with its key."""

    PUT = 0
    ROLL = 1
    DELETE = 2
    DELIVERY = 3


def trace_in(record: bytes) -> tuple[Trace, int] | None:
    """The trace in a record of RocketMQ's, and a hash of its key; None if it is about no timer.

    Args:
        record: A record without an origin. Of ours those are messages and deletes that were sent.
    """
    properties = record_properties(record)
    slot = find(properties, OUT_NAME) if OUT in properties else None
    if slot is None:
        return None
    topic, trace = record_topic(record), Trace.DELIVERY
    if topic == _TOPIC:
        topic, trace = find(properties, REAL_TOPIC_NAME) or b"", _trace_of(properties)
    elif find(properties, REAL_TOPIC_NAME) is not None:
        return None
    key = find(properties, UNIQ_KEY_NAME)
    if trace is Trace.DELETE:
        key = _deleted_key(properties, topic)
    return None if key is None else (trace, hash((topic, key, slot)))


def _trace_of(properties: bytes) -> Trace:
    if find(properties, DELETE_NAME) is not None:
        return Trace.DELETE
    return Trace.PUT if find(properties, ROLL_LABEL_NAME) is None else Trace.ROLL


def _deleted_key(properties: bytes, topic: bytes) -> bytes | None:
    """The unique key that a delete names; None if the delete is ours, or names another topic."""
    name = find(properties, DELETE_NAME)
    if name is None or find(properties, DELETE_ORDER_NAME) is not None:
        return None
    return deleted_key(topic, name)


@attrs.define(eq=False)
class Timeline:
    """The traces in a stretch of the log, in its order; each takes 17 bytes."""

    _keys: array[int] = attrs.field(factory=lambda: array("q"), init=False)
    _positions: array[int] = attrs.field(factory=lambda: array("q"), init=False)
    _traces: array[int] = attrs.field(factory=lambda: array("b"), init=False)
    is_used: bool = attrs.field(default=False, init=False)
    """There is a trace that only RocksDB timers leave: a delivery or a roll of theirs."""

    def add(self, phy_offset: int, record: bytes) -> None:
        """Add the trace in a record, if there is one.

        Args:
            phy_offset: Position of the record, behind that of the record before.
            record: As for ``trace_in``.
        """
        found = trace_in(record)
        if found is None:
            return
        trace, key = found
        self.is_used |= trace in (Trace.ROLL, Trace.DELIVERY)
        self._keys.append(key)
        self._positions.append(phy_offset)
        self._traces.append(trace)

    def done(self, enqueued: Int64s, *, overwrites: bool) -> Int64s:
        """Positions of timer records that were delivered, deleted, or replaced by another record.

        Args:
            enqueued: Sorted positions of records that have units. They wait in the wheel, which may
                hold a key twice.
            overwrites: RocksDB timers were on, so a put replaces the one before with its key.
        """
        keys, positions = np.array(self._keys, np.int64), np.array(self._positions, np.int64)
        traces = np.array(self._traces, np.int8)
        rows = np.lexsort((positions, keys))
        keys, positions, traces = keys[rows], positions[rows], traces[rows]
        is_record = (traces == Trace.PUT) | (traces == Trace.ROLL)
        done = is_record & _stands_behind(keys, traces >= Trace.ROLL)
        done |= (traces == Trace.ROLL) & _comes_late(keys, traces)
        if overwrites:
            replaced = is_record & _stands_behind(keys, traces == Trace.PUT)
            done |= replaced & ~contains(enqueued, positions)
        return np.sort(positions[done])


def _stands_behind(keys: Int64s, closing: Flags) -> Flags:
    """Which rows have a closing row of the same key behind them.

    Args:
        keys: Keys of the rows, sorted.
        closing: Which rows are closing ones.
    """
    count = len(keys)
    at = np.where(closing, np.arange(count), -1)
    ends = np.searchsorted(keys, keys, side="right") - 1
    newest = np.maximum.accumulate(at)[ends] if count else at
    return np.asarray(newest > np.arange(count), np.bool_)


def _comes_late(keys: Int64s, traces: NDArray[np.int8]) -> Flags:
    """Which rows come after the timer of their key has ended, as the last row but rolls says."""
    count = len(keys)
    at = np.where(traces != Trace.ROLL, np.arange(count), -1)
    last = np.maximum.accumulate(at) if count else at
    begins = np.searchsorted(keys, keys, side="left")
    is_known = last >= begins
    return np.asarray(is_known & (traces[np.maximum(last, 0)] >= Trace.DELETE), np.bool_)
