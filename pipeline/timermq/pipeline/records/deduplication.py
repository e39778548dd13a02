"""Deduplication after a crash: what the last run did beyond its checkpoint (ONCE).

Recovery is idempotent: what is known as done is not done again. The checkpoint is up to a flush
interval old. What happened after it stands in the two logs, and recovery reads their tails:

- every record that the pipeline writes names its origin: ``preparedTransactionOffset`` holds
  ``-1 - position`` of the timer record that it delivers or rolls. Those positions are done;
- a copy that was rolled names the first record of its message: that and all copies before it are
  done, whatever has become of the records between;
- every unit of the timer log names its record: those entries are enqueued;
- what cleaning has removed was done with (``Pins.released_to``).

A record that Java delivered names no origin: it is known again by its keys (``foreign_key``).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import TimerLog
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import find
from timermq.timerstore.record import (
    PREPARED_OFFSET_AT,
    SYS_FLAG_AT,
    record_properties,
    record_topic,
)

from .foreign_key import ForeignKey, pending_key
from .timer_properties import ORDER_NAME, ROLL_TIMES
from .timer_record import TIMER_TOPIC
from .undeliverable import Reason, TimerRecordError

Position = TypeVar("Position", int, NDArray[np.int64])
"""One, or a column."""

_V6_EXTRA = 12
"""Bytes that an IPv6 host (sysFlag 0x10 born, 0x20 store) is longer than an IPv4 one."""

_NONE = np.empty(0, np.int64)


def origin_of(phy_offset: Position) -> Position:
    """The origin field of the record that delivers or rolls the one at ``phy_offset``; and back."""
    return -1 - phy_offset


def enqueued_from(timer_log: TimerLog, phy_offset: int) -> NDArray[np.int64]:
    """Sorted positions of the messages at or behind ``phy_offset`` that have a unit.

    Their units may stand anywhere in the log: when enqueueing began at the start of the queue, the
    checkpoints written meanwhile are behind units that were there all the time.
    """
    found = [_NONE]
    for _, units in timer_log.scan(timer_log.min_pos):
        offsets = units["offset_py"].astype(np.int64)
        found.append(offsets[offsets >= phy_offset])
    return np.unique(np.concatenate(found))


@attrs.frozen
class Doubt:
    """The possible content of one hole."""

    position: int
    """Messages before it are in doubt …"""
    until_ms: int
    """… that could be delivered or rolled by this time."""
    topics: frozenset[str] | None
    """The topics of these messages; None: any."""

    def covers(self, offset_py: int, first_ms: int, topic: str) -> bool:
        """Whether it may be this message that was done there.

        Args:
            offset_py: Position of its record.
            first_ms: When it could be delivered, or rolled, first.
            topic: Its topic.
        """
        return (
            offset_py < self.position
            and first_ms <= self.until_ms
            and (self.topics is None or topic in self.topics)
        )


@attrs.define(eq=False, kw_only=True)
class AlreadyDone:
    """Positions and keys that must not be handled again."""

    origins: NDArray[np.int64] = attrs.field(default=_NONE)
    """Sorted positions of timer records that are delivered or rolled already."""
    ended: NDArray[np.int64] = attrs.field(default=_NONE)
    """Those of them that were rolled, marked as cancelled or quarantined. Of a master's log: their
    units may wait in later slots here than where the master has read them."""
    enqueued: NDArray[np.int64] = attrs.field(default=_NONE)
    """Sorted positions of timer records whose units are in the timer log already."""
    cleaned_to: int = 0
    """Records before it were cleaned, so nothing needed them: they are done."""
    foreign: dict[ForeignKey, list[int]] = attrs.Factory(dict[ForeignKey, list[int]])
    """Positions of Java's deliveries and rolls, ascending, by the key that they name."""
    doubts: tuple[Doubt, ...] = ()
    """Damaged places of the log that may be what became of a pending message."""
    until_slot_ms: int = -1
    """The memory is needed for slots up to this one: those the last run can have reached."""
    until_queue_offset: int = 0
    """… and for entries of the timer topic below this one."""
    is_recounted: bool = False
    """Pending messages were counted by their units: of the entries below ``until_queue_offset``
    those that get one only now count as well, rolled or not."""

    def __bool__(self) -> bool:
        return bool(
            len(self.origins)
            or len(self.enqueued)
            or self.foreign
            or self.cleaned_to
            or self.doubts
        )

    def enqueue_repeats(self, offsets_py: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which entries of the timer topic need not be enqueued again."""
        return contains(self.enqueued, offsets_py) | self.dequeue_repeats(offsets_py)

    def dequeue_repeats(self, offsets_py: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which due requests have reached their topic, or were rolled, before the stop."""
        return contains(self.origins, offsets_py) | (offsets_py < self.cleaned_to)

    def has_foreign(self, offset_py: int, record: bytes) -> bool:
        """Whether Java handled the timer record at a position: what did stands behind it."""
        places = self.foreign.get(pending_key(record), []) if self.foreign else []
        return bool(places) and places[-1] > offset_py

    def take_foreign(self, offset_py: int, record: bytes) -> bool:
        """The same, when the record is due; each of Java's deliveries answers for one record."""
        if not self.has_foreign(offset_py, record):
            return False
        places = self.foreign[pending_key(record)]
        del places[bisect_right(places, offset_py)]
        return True

    def check_doubts(self, offset_py: int, first_ms: int, topic: str) -> None:
        """Refuse a message that may have been delivered or rolled by a record that is damaged.

        Args:
            offset_py: Position of its record.
            first_ms: When it could be delivered, or rolled, first.
            topic: Its topic.

        Raises:
            TimerRecordError: It may; where.
        """
        for doubt in self.doubts:
            if doubt.covers(offset_py, first_ms, topic):
                raise TimerRecordError(
                    Reason.IN_DOUBT,
                    f"timer record at {offset_py}: expected to know whether it was delivered, "
                    f"found the commit log damaged at {doubt.position}",
                )

    def last_foreign_slot_ms(self) -> int:
        """The last slot that a record which Java handled asks for, 0 without any.

        What Java rolled is due later than all that was read. Enqueued again (the timer log was
        lost), it comes to that slot beside the record that it was rolled to.
        """
        return max((number_in(out) or 0 for _, _, out, _ in self.foreign), default=0)

    def forget(self, *, slot_ms: int, queue_offset: int) -> None:
        """Let go of everything once both pointers are past what the last run can have touched."""
        if self and slot_ms > self.until_slot_ms and queue_offset >= self.until_queue_offset:
            self.origins = self.ended = self.enqueued = _NONE
            self.foreign = {}
            self.cleaned_to = 0
            self.doubts = ()


def origin_in(record: bytes) -> int | None:
    """Position of the timer record that this record delivers or rolls; None if it names none."""
    at = _origin_at(record)
    field = int.from_bytes(record[at : at + 8], "big", signed=True)
    return -1 - field if field < 0 else None


def without_origin(record: bytes) -> bytes:
    """The record as clients are shown it: with 0, as RocketMQ's, in place of an origin."""
    if origin_in(record) is None:
        return record
    at = _origin_at(record)
    return record[:at] + bytes(8) + record[at + 8 :]


def _origin_at(record: bytes) -> int:
    """Where the origin field begins."""
    flags = record[SYS_FLAG_AT + 3]
    return PREPARED_OFFSET_AT + _V6_EXTRA * (bool(flags & 0x10) + bool(flags & 0x20))


def order_in(record: bytes) -> int | None:
    """Position of the first record of the message that this record rolls; None if it rolls none."""
    if ROLL_TIMES not in record or record_topic(record) != TIMER_TOPIC.encode():
        return None
    return number_in(find(record_properties(record), ORDER_NAME))


def earlier_copies(
    orders: NDArray[np.int64], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Records of rolled messages that are done, since a later copy stands in the log.

    A copy names the one before it as its origin. Where a power cut has left a hole between the two,
    that origin is lost, and only the order tells.

    Args:
        orders: Of each copy the position of the message's first record.
        positions: Where the copies stand.

    Returns:
        Positions of the first records and of all copies but the newest; and of a copy behind each.
    """
    rows = np.lexsort((positions, orders))
    orders, positions = orders[rows], positions[rows]
    is_first = np.append(True, orders[1:] != orders[:-1])[: len(orders)]
    is_repeated = ~is_first
    earlier = positions[np.flatnonzero(is_repeated) - 1]
    return (
        np.concatenate([orders[is_first], earlier]),
        np.concatenate([positions[is_first], positions[is_repeated]]),
    )


def contains(known: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of ``wanted`` are in ``known``, a sorted column."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = 0
    return np.asarray(known[at] == wanted, np.bool_)
