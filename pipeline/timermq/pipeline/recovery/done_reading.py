"""What the commit log shows as delivered and rolled, read piece by piece.

Recovery reads all of it at a start. A follower reads it while it is copied, so that it has little
left to read when it is to lead: what was read counts, for a log only grows.
"""

from __future__ import annotations

import contextlib
from itertools import islice

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.index_file import CutWalkError
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.plain_run import PlainRun
from timermq.timerstore.record import record_topic
from timermq.timerstore.run_properties import RunProperties

from ..records.deduplication import AlreadyDone, earlier_copies, order_in, origin_in, origin_of
from ..records.doubts import doubts_of, origins_in
from ..records.foreign_key import ForeignKey, foreign_key_in, pending_key
from ..records.system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from ..records.timeline import Timeline
from ..records.timer_properties import DEQUEUE_NAME
from ..records.timer_record import TIMER_TOPIC

BLOCK_SIZE = 256 << 10
"""Bytes of the log that are read at once."""
SINGLES_MIN = 32
"""Records that are read one by one where no run of plain ones begins; twice as many each time that
none begins behind them either: to begin such a reading takes a while in a log that is old."""

_TIMER = TIMER_TOPIC.encode()
_MARK = CANCEL_MARK_TOPIC.encode()
_OTHER_ENDS = frozenset({QUARANTINE_TOPIC.encode(), _MARK})
_ENDING_SIZES = np.array(sorted({len(topic) for topic in (_TIMER, *_OTHER_ENDS)}), np.int64)
"""Bytes of the topics whose records are no deliveries."""


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
    _delivered: list[NDArray[np.int64]] = attrs.field(factory=list[NDArray[np.int64]], init=False)
    """Positions of plain deliveries, and of their origins: two rows."""
    _done: list[tuple[int, int, int | None]] = attrs.field(
        factory=list[tuple[int, int, int | None]], init=False
    )
    """Position of another record, its origin, and the order of a message that it rolls."""
    _ends: list[tuple[int, int, bool]] = attrs.field(
        factory=list[tuple[int, int, bool]], init=False
    )
    """Position of a record that is no delivery, its origin, and whether it cancels it."""
    _unspent: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]], init=False)
    """Position of a record that ends another one which stays in its slot, and that one's."""
    _foreign: dict[ForeignKey, list[tuple[int, int]]] = attrs.field(
        factory=dict[ForeignKey, list[tuple[int, int]]], init=False
    )
    """Position and store time of each record that RocketMQ wrote, by the key that it names."""
    _rolls: list[tuple[int, ForeignKey]] = attrs.field(
        factory=list[tuple[int, ForeignKey]], init=False
    )
    """Those of them that are rolls, of which it was not asked yet what they end."""
    _holes: list[Hole] = attrs.field(factory=list[Hole], init=False)

    def __attrs_post_init__(self) -> None:
        self.end = self.first

    def covers(self, scan_py: int) -> bool:
        """Whether all from a position on was read, as far as it was read."""
        return self.first <= scan_py <= self.end

    def read(self, count_max: int | None = None) -> None:
        """Read on: so many records, or up to the end of the log as it is now."""
        log_end = self.store.commit_log.max_offset
        left = log_end if count_max is None else count_max
        singles = SINGLES_MIN if self.timeline is None else left
        while self.end < log_end and left > 0:
            count = self._read_run(log_end, left) if self.timeline is None else 0
            if count:
                singles = SINGLES_MIN
            else:
                count = self._read_singles(log_end, min(left, singles))
                singles *= 2
            left -= count

    def _read_run(self, log_end: int, count_max: int) -> int:
        """Read a run of plain records at once; how many, 0 where none begins."""
        log, size = self.store.commit_log, min(BLOCK_SIZE, log_end - self.end)
        if not log.old.compare(self.end, self.end + size):
            return 0
        data = log.read(self.end, size)
        run = PlainRun.of(data, 0, self.end, len(data), count_max)
        if run is None:
            return 0
        self.take_run(RunProperties(run))
        return len(run)

    def _read_singles(self, log_end: int, count_max: int) -> int:
        """Read records one by one, at most so many; fewer where the reading ends."""
        log = self.store.commit_log
        reading = LogReading(log, self.end, end=log_end, purpose="what was delivered")
        count = 0
        for phy_offset, record in islice(reading, count_max):
            self._take(phy_offset, record)
            self.end = phy_offset + len(record)
            count += 1
        self._holes += reading.holes
        if count < count_max:
            self.end = log_end
        return count

    def take_run(self, records: RunProperties) -> None:
        """Take records that were read already, unless they are not the next ones."""
        run = records.run
        if int(run.positions[0]) != self.end:
            return
        origins = origin_of(run.heads["prepared_transaction_offset"].astype(np.int64))
        is_named = origins >= 0
        is_single = records.having(DEQUEUE_NAME) & ~is_named
        if is_named.any():
            # Of one of these topics it may be something else than a delivery.
            is_odd = is_named & np.isin(run.topics.sizes, _ENDING_SIZES)
            is_single |= is_odd
            is_plain = is_named & ~is_odd
            self._delivered.append(np.stack([run.positions[is_plain], origins[is_plain]]))
        for row in np.flatnonzero(is_single).tolist():
            self._take(int(run.positions[row]), run.record(row))
        self.end += run.size

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
            self._foreign.setdefault(key, []).append((phy_offset, store_ms_of(record)))
            if record_topic(record) == _TIMER:
                self._rolls.append((phy_offset, key))

    def forget(self, scan_py: int) -> None:
        """Forget what was read before a position, which no recovery asks for any more."""
        if self.covers(scan_py):
            self.first = scan_py
            chunks = [one[:, one[0] >= scan_py] for one in self._delivered]
            self._delivered = [one for one in chunks if one.size]
            self._done = [one for one in self._done if one[0] >= scan_py]
            self._ends = [one for one in self._ends if one[0] >= scan_py]
            self._unspent = [one for one in self._unspent if one[0] >= scan_py]
            foreign = self._foreign.items()
            kept = ((key, [at for at in places if at[0] >= scan_py]) for key, places in foreign)
            self._foreign = {key: places for key, places in kept if places}
            self._rolls = [one for one in self._rolls if one[0] >= scan_py]
            self._holes = [one for one in self._holes if one.end > scan_py]

    def gone(self) -> NDArray[np.int64]:
        """Positions of records that wait no more, ascending: delivered, rolled or quarantined.

        One that is cancelled is not among them: with its delete it counts as nothing already.
        """
        singles = np.array([origin for _, origin, _ in self._done], np.int64)
        origins = np.concatenate([singles, *(chunk[1] for chunk in self._delivered)])
        unspent = np.array([origin for _, origin in self._unspent], np.int64)
        return np.setdiff1d(origins, unspent)

    def ends(self, first: int = 0, until: int | None = None) -> Ends:
        """What ends records before they are due, from a position on and up to another one.

        RocketMQ's rolls name no origin: the key index has it.
        """
        for phy_offset, key in self._rolls:
            self._ends += [
                (phy_offset, origin, False) for origin in self._rolled_by(phy_offset, key)
            ]
        self._rolls.clear()
        until = self.end if until is None else until
        chosen = [one for one in self._ends if first <= one[0] < until]
        columns = np.array(chosen, np.int64).reshape(-1, 3).T
        return Ends(columns[0], columns[1], columns[2].astype(np.bool_))

    def _rolled_by(self, phy_offset: int, key: ForeignKey) -> list[int]:
        """Positions of the records that RocketMQ's roll at a position may have rolled."""
        found = self.store.newest_first(TIMER_TOPIC, key[1].decode("utf-8", "replace"), unique=True)
        # With more records of one hash than the index looks at, a roll is known by its key alone.
        with contextlib.suppress(CutWalkError):
            return [at for at, one in found if at < phy_offset and pending_key(one) == key]
        return []

    def has_foreign(self, offset_py: int, record: bytes) -> bool:
        """Whether RocketMQ has delivered or rolled the record at a position, as its key tells."""
        places = self._foreign.get(pending_key(record)) if self._foreign else None
        return places is not None and places[-1][0] > offset_py

    def done(self, read_ms: int, queue_py: int) -> AlreadyDone:
        """What was delivered and rolled.

        Java's deliveries of slots that Java has read already are no question any more: a delivery
        of a later slot was stored after the read time, one of a later entry stands behind that
        entry. Of slots that we read they are: what came late waits in a later slot than it asks
        for, and all that a new follower copies comes late.

        Args:
            read_ms: Slots before it are read by Java; 0: no slot is.
            queue_py: Position of the first entry of the timer topic that is not linked.
        """
        done = AlreadyDone()
        for key, places in self._foreign.items():
            if asked := [at for at, store_ms in places if store_ms >= read_ms or at >= queue_py]:
                done.foreign[key] = asked
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
        delivered = [chunk[1] for chunk in self._delivered]
        done.origins = np.unique(np.concatenate([np.array(origins, np.int64), *delivered, earlier]))
        return done
