"""Which pending timers are cancelled: the deletes that wait, wherever they do.

A delete waits as its target does: as a unit of the slot it is due in, as one that rolls on the way
there, or as an entry of the timer topic that has no unit yet. It takes effect in the slot that its
moment lies in, so the time of that slot and the key name its target.

Reading all deletes takes a pass over the timer log. It is made once: what is known is kept, 16
bytes a delete, and the next call reads only what has come since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import numpy as np

from timermq.timerlog import MAGIC_DELETE, MAGIC_SECOND, slot_times
from timermq.timerstore.array_types import Int64s
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import record_properties

from ..records.deduplication import AlreadyDone
from ..records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    deleted_name,
    message_names,
)
from ..recovery.timer_files import TimerFiles

READ_COUNT = 64
"""Records read between two looks at the other tasks: about a millisecond."""

_Place = tuple[int, int, int]
"""Time of the slot or offset in the queue, position and size of the record."""

_NONE = np.empty((0, 2), np.int64)


@attrs.frozen(eq=False)
class Cancelled:
    """The names in deletes, as they were known at one moment."""

    _targets: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64))
    """Hashes in order."""

    def cover(self, out_ms: int, order_py: int, topic: bytes, unique_key: bytes) -> bool:
        """Whether the timer of this slot, order, topic and key is cancelled."""
        if not len(self._targets):
            return False
        names = message_names(topic, unique_key, order_py)
        return any(
            self._targets[np.searchsorted(self._targets, wanted) % len(self._targets)] == wanted
            for wanted in [hash((out_ms, name)) for name in names]
        )


@attrs.define(eq=False, kw_only=True)
class PendingDeletes:
    """The deletes of one store, as far as they are read."""

    store: MessageStore
    files: TimerFiles
    already_done: AlreadyDone
    precision_ms: int
    _log_end: int = 0
    """Units before it are read."""
    _queue_end: int = 0
    """Entries of the timer topic before it are read."""
    _units: Int64s = attrs.field(default=_NONE, init=False)
    """A row a unit: time of its slot, until which it is needed, and the target's hash."""
    _entries: Int64s = attrs.field(default=_NONE, init=False)
    """A row an entry: its offset, and the target's hash."""
    cancelled: Cancelled = attrs.field(factory=Cancelled, init=False)
    """The messages that they name; another object whenever more is known."""

    def learn(self, *, read_ms: int, queue_offset: int) -> Iterator[None]:
        """Read the deletes that have come since the last time, and forget those that are done.

        Yields after each piece of work; what is known changes at the very end, at once. One at a
        time: two that overlap would each take the other's beginning for their own.

        Args:
            read_ms: Slots before it are read.
            queue_offset: Entries of the timer topic from here on may have no unit yet.
        """
        units, entries = self._units, self._entries
        log_end, queue_end = self.files.timer_log.max_pos, self._end_of_queue()
        of_units = [units[units[:, 0] >= read_ms]]
        yield from self._read(self._new_units(read_ms, log_end), of_units)
        of_entries = [entries[entries[:, 0] >= queue_offset]]
        yield from self._read(self._new_entries(queue_offset, queue_end), of_entries)
        self._units, self._log_end = np.concatenate(of_units), log_end
        self._entries, self._queue_end = np.concatenate(of_entries), queue_end
        targets = np.concatenate([self._units[:, 1], self._entries[:, 1]])
        self.cancelled = Cancelled(np.sort(targets))

    def _read(self, places: Iterable[_Place | None], parts: list[Int64s]) -> Iterator[None]:
        """Add a row for each place where there is a delete; None is a pause."""
        rows: list[tuple[int, int]] = []
        for number, place in enumerate(places):
            target = None if place is None else self._target(place[1], place[2])
            if place is not None and target is not None:
                rows.append((place[0], target))
            if place is None or number % READ_COUNT == 0:
                parts.append(np.array(rows, np.int64).reshape(-1, 2))
                rows.clear()
                yield
        parts.append(np.array(rows, np.int64).reshape(-1, 2))

    def _new_units(self, read_ms: int, log_end: int) -> Iterator[_Place | None]:
        live = self.files.wheel.live(read_ms)
        if not len(live):
            return
        start = max(self._log_end, int(live["first_pos"].min()), self.files.timer_log.min_pos)
        for positions, units in self.files.timer_log.scan(start):
            slots, offsets = slot_times(units), units["offset_py"].astype(np.int64)
            magic = units["magic"] & (MAGIC_DELETE | MAGIC_SECOND)
            wanted = (magic == MAGIC_DELETE) & (slots >= read_ms)
            wanted &= (positions < log_end) & ~self.already_done.dequeue_repeats(offsets)
            yield from zip(
                slots[wanted].tolist(),
                offsets[wanted].tolist(),
                units["size_py"][wanted].tolist(),
                strict=True,
            )
            yield None
            if positions[-1] >= log_end:
                return

    def _new_entries(self, queue_offset: int, queue_end: int) -> Iterator[_Place | None]:
        yield from queued_entries(
            self.store, max(self._queue_end, queue_offset), queue_end, self.already_done
        )

    def _end_of_queue(self) -> int:
        queue = self.store.queue(TIMER_TOPIC, 0)
        return 0 if queue is None else queue.max_offset

    def _target(self, offset_py: int, size_py: int) -> int | None:
        """The hash of a delete's target; None when the record is none, or gone."""
        record = self.store.commit_log.record_at(offset_py, size_py)
        key = None if record is None else deleted_name(record_properties(record))
        if record is None or key is None:
            return None
        try:
            return hash((decode_timer(record, offset_py, self.precision_ms).out_ms, key))
        except TimerRecordError:
            return None


QUEUE_COUNT = 4096
"""Entries of the timer topic read at a time."""


def queued_entries(
    store: MessageStore, queue_offset: int, queue_end: int, already_done: AlreadyDone
) -> Iterator[_Place]:
    """Entries of the timer topic that are not enqueued yet: offset, position, size."""
    queue = store.queue(TIMER_TOPIC, 0)
    while queue is not None and queue_offset < queue_end:
        queue_offset = max(queue_offset, queue.min_offset)
        units = queue.units(queue_offset, min(QUEUE_COUNT, queue_end - queue_offset))
        if not len(units):
            return
        offsets_py = units["phy_offset"].astype(np.int64)
        fresh = np.flatnonzero(~already_done.enqueue_repeats(offsets_py))
        yield from zip(
            (fresh + queue_offset).tolist(),
            offsets_py[fresh].tolist(),
            units["size"][fresh].tolist(),
            strict=True,
        )
        queue_offset += len(units)
