"""What the commit log shows as delivered and rolled, read piece by piece.

Recovery reads all of it at a start. A follower reads it while it is copied, so that it has little
left to read when it is to lead: what was read counts, for a log only grows.
"""

from __future__ import annotations

from itertools import islice

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import record_topic

from ..records.deduplication import AlreadyDone, earlier_copies, order_in, origin_in
from ..records.doubts import doubts_of, origins_in
from ..records.foreign_key import ForeignKey, foreign_key_in, pending_key
from ..records.system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from ..records.timeline import Timeline
from ..records.timer_record import TIMER_TOPIC

_TIMER = TIMER_TOPIC.encode()
_MARK = CANCEL_MARK_TOPIC.encode()
_OTHER_ENDS = frozenset({QUARANTINE_TOPIC.encode(), _MARK})


@attrs.frozen(eq=False)
class Ends:
    """Records that end others before these are due, as columns."""

    positions: NDArray[np.int64]
    """Where they stand."""
    origins: NDArray[np.int64]
    """Positions of the records that they end."""
    are_cancels: NDArray[np.bool_]
    """Which of them end a record by a delete that waits, or a message that a delete makes way for;
    the others are rolls, marks and entries of the quarantine."""

    def __len__(self) -> int:
        return len(self.positions)


@attrs.define(eq=False)
class DoneReading:
    """One reading, from a position on.

    Args:
        store: Opened and recovered.
        first: Position of a record.
        timeline: Gets what RocksDB timers left, and judges by all of it; None: there is none.
    """

    store: MessageStore
    first: int
    """Everything from here on was read …"""
    timeline: Timeline | None = None
    end: int = attrs.field(init=False)
    """… up to here."""
    _done: list[tuple[int, int, int | None]] = attrs.field(
        factory=list[tuple[int, int, int | None]], init=False
    )
    """Position of a record, its origin, and the order of a message that it rolls."""
    _ends: list[tuple[int, int, bool]] = attrs.field(
        factory=list[tuple[int, int, bool]], init=False
    )
    """Position of a record that is no delivery, its origin, and whether it cancels it."""
    _unspent: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]], init=False)
    """Position of a record that ends another one which stays in its slot, and that one's."""
    _foreign: list[tuple[int, int, ForeignKey]] = attrs.field(
        factory=list[tuple[int, int, ForeignKey]], init=False
    )
    """Position and store time of a record that RocketMQ wrote, and the key that it names."""
    _holes: list[Hole] = attrs.field(factory=list[Hole], init=False)

    def __attrs_post_init__(self) -> None:
        self.end = self.first

    def covers(self, scan_py: int) -> bool:
        """Whether all from a position on was read, as far as it was read."""
        return self.first <= scan_py <= self.end

    def read(self, count_max: int | None = None) -> None:
        """Read on: so many records, or up to the end of the log as it is now."""
        log = self.store.commit_log
        log_end = log.max_offset
        reading = LogReading(log, self.end, end=log_end, purpose="what was delivered")
        count = 0
        for phy_offset, record in islice(reading, count_max):
            self._take(phy_offset, record)
            self.end = phy_offset + len(record)
            count += 1
        self._holes += reading.holes
        if count_max is None or count < count_max:
            self.end = log_end

    def _take(self, phy_offset: int, record: bytes) -> None:
        origin = origin_in(record)
        if origin is not None:
            order = order_in(record)
            self._done.append((phy_offset, origin, order))
            topic = record_topic(record)
            if topic == _TIMER or topic in _OTHER_ENDS:
                is_cancel = topic == _TIMER and order is None
                self._ends.append((phy_offset, origin, is_cancel))
                if is_cancel or topic == _MARK:
                    self._unspent.append((phy_offset, origin))
            return
        if self.timeline is not None:
            self.timeline.add(phy_offset, record)
        key = foreign_key_in(record)
        if key is not None:
            self._foreign.append((phy_offset, store_ms_of(record), key))

    def forget(self, scan_py: int) -> None:
        """Forget what was read before a position, which no recovery asks for any more."""
        if self.covers(scan_py):
            self.first = scan_py
            self._done = [one for one in self._done if one[0] >= scan_py]
            self._ends = [one for one in self._ends if one[0] >= scan_py]
            self._unspent = [one for one in self._unspent if one[0] >= scan_py]
            self._foreign = [one for one in self._foreign if one[0] >= scan_py]
            self._holes = [one for one in self._holes if one.end > scan_py]

    def gone(self) -> NDArray[np.int64]:
        """Positions of records that wait no more, ascending: delivered, rolled or quarantined.

        One that is cancelled is not among them: with its delete it counts as nothing already.
        """
        origins = np.array([origin for _, origin, _ in self._done], np.int64)
        unspent = np.array([origin for _, origin in self._unspent], np.int64)
        return np.setdiff1d(origins, unspent)

    def ends(self, first: int = 0, until: int | None = None) -> Ends:
        """What ends records before they are due, from a position on and up to another one."""
        until = self.end if until is None else until
        chosen = [one for one in self._ends if first <= one[0] < until]
        columns = np.array(chosen, np.int64).reshape(-1, 3).T
        return Ends(columns[0], columns[1], columns[2].astype(np.bool_))

    def has_foreign(self, record: bytes) -> bool:
        """Whether RocketMQ has delivered or rolled a record, as far as its key tells."""
        return bool(self._foreign) and pending_key(record) in {key for _, _, key in self._foreign}

    def done(self, read_ms: int, queue_py: int) -> AlreadyDone:
        """What was delivered and rolled.

        Java's deliveries of slots that are read already are no question any more: a delivery of a
        later slot was stored after the read time, one of a later entry stands behind that entry.

        Args:
            read_ms: Slots before it are read.
            queue_py: Position of the first entry of the timer topic that is not linked.
        """
        done = AlreadyDone()
        for phy_offset, store_ms, key in self._foreign:
            if store_ms >= read_ms or phy_offset >= queue_py:
                done.foreign[key] = done.foreign.get(key, 0) + 1
        origins = [origin for _, origin, _ in self._done]
        origins += origins_in(self.store.commit_log, self._holes)
        is_used = self.timeline is not None and self.timeline.is_used
        is_javas = bool(done.foreign) or is_used
        done.doubts = doubts_of(self.store, self._holes, is_javas=is_javas)
        copies = [(order, at) for at, _, order in self._done if order is not None]
        orders, positions = np.array(copies, np.int64).reshape(-1, 2).T
        earlier, _ = earlier_copies(orders, positions)
        ended = [origin for _, origin, is_cancel in self._ends if not is_cancel]
        done.ended = np.unique(np.array(ended, np.int64))
        done.origins = np.unique(np.concatenate([np.array(origins, np.int64), earlier]))
        return done
