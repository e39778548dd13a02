"""The facts by which a task tells which of its units will fire: found once, where work is cut.

Of a stopped store recovery knows what was handled, and which entries of the timer topic
have no unit yet. Of a live one the same is read from its files, between the positions that it has
published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from timermq.pipeline.offline_store import open_offline
from timermq.timerlog import MAGIC_DELETE, UNIT, slot_times
from timermq.timerlog.segment import units_in
from timermq.timerlog.unit import Units, are_units, unpack_exact
from timermq.timerstore.array_types import Places
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT

from ..cancel.pending_deletes import QUEUE_COUNT, queued_entries
from ..records.deduplication import contains
from ..records.foreign_key import ForeignKey, foreign_key_in
from ..records.timer_properties import DEQUEUE
from ..records.timer_record import TIMER_TOPIC
from .byte_arrays import have_within
from .file_part import FilePart, only
from .log_places import log_spans
from .options import INT64_MAX, ReadOptions
from .pending_facts import Bounds, Deletes, Handled, named_by
from .record_chunks import RecordChunk
from .record_gathering import gathered
from .store_view import StoreView
from .timer_arrays import read_timers

CHUNK_UNITS = 65_536
"""Units that are looked at together."""


@attrs.frozen(eq=False)
class Entries:
    """Entries of the timer topic that have no unit yet."""

    positions: Places
    sizes: Places


@attrs.frozen(eq=False)
class Plan:
    """The handled and cancelled messages, and the entries without a unit."""

    handled: Handled
    deletes: Deletes
    entries: Entries
    bounds: tuple[Bounds, ...]
    """Of the units of each part."""

    @classmethod
    def of(cls, view: StoreView, parts: Sequence[FilePart]) -> Plan:
        """Read it.

        Args:
            view: The store.
            parts: All units of the timer log, as tasks will read them.

        Raises:
            StoreError: The store is damaged; it was cleaned meanwhile.
        """
        handled, entries = _of_live(view) if view.is_live else _of_stopped(view)
        positions, sizes, bounds = [entries.positions], [entries.sizes], list[Bounds]()
        for part in parts:
            seen = _Seen()
            for units in pending_units(part, view.read_ms):
                offsets = seen.add(units)
                wanted = ((units["magic"] & MAGIC_DELETE) != 0) & ~handled.hold(offsets)
                positions.append(offsets[wanted])
                sizes.append(units["size_py"][wanted].astype(np.int64))
            bounds.append(seen.bounds())
        deletes = _deletes(view, np.concatenate(positions), np.concatenate(sizes))
        return cls(handled, deletes, entries, tuple(bounds))


@attrs.define
class _Seen:
    """Between which numbers the units of a part lie."""

    first_py: int = INT64_MAX
    last_py: int = -1
    first_order: int = INT64_MAX

    def add(self, units: Units) -> Places:
        """Some of them; returns the positions of their records."""
        offsets = units["offset_py"].astype(np.int64)
        if len(offsets):
            order, _, are_told = unpack_exact(units["reserved"])
            self.first_py = min(self.first_py, int(offsets.min()))
            self.last_py = max(self.last_py, int(offsets.max()))
            least = int(order.min()) if are_told.all() else 0
            self.first_order = min(self.first_order, least)
        return offsets

    def bounds(self) -> Bounds:
        """Of all that was seen."""
        return Bounds(self.first_py, self.last_py, self.first_order)


def unit_parts(view: StoreView) -> list[FilePart]:
    """The units of each segment of the timer log."""
    log = view.timer_log
    found: list[FilePart] = []
    for start, low, high in log.segments(log.start, log.end):
        high = min(high, start + units_in(log.segment_size) * UNIT.size)
        high -= (high - low) % UNIT.size
        if low < high:
            found.append(FilePart(log.path(start), start, low, high))
    return found


def pending_units(part: FilePart, read_ms: int) -> Iterator[Units]:
    """The units of a part that are in slots which are not read yet."""
    for _, data in part.chunks(CHUNK_UNITS * UNIT.size):
        units = np.frombuffer(data, UNIT.dtype)
        yield only(units, are_units(units) & (slot_times(units) >= read_ms))


def _deletes(view: StoreView, positions: Places, sizes: Places) -> Deletes:
    """The deletes among records at some places."""
    slots, names = [np.empty(0, np.int64)], list[bytes]()
    for chunk, _ in gathered(view.log, positions, sizes):
        timers = read_timers(chunk, view.timer_options.timer_precision_ms)
        found_slots, found_names = named_by(chunk, timers)
        slots.append(found_slots)
        names += found_names
    return Deletes.of(np.concatenate(slots), names)


def _of_stopped(view: StoreView) -> tuple[Handled, Entries]:
    with open_offline(OsDisk(), view.root, view.store_options, view.timer_options) as offline:
        timers = offline.timers
        queue = offline.store.queue(TIMER_TOPIC, 0)
        end = 0 if queue is None else queue.max_offset
        found = queued_entries(offline.store, timers.queue_offset, end, timers.already_done)
        places = np.array([place[1:] for place in found], np.int64).reshape(-1, 2)
        return Handled.of(timers.already_done), Entries(places[:, 0], places[:, 1])


def _of_live(view: StoreView) -> tuple[Handled, Entries]:
    positions, sizes = _queued(view)
    first_py = int(positions[0]) if len(positions) else view.log.end
    handled = _handled(view, first_py)
    enqueued = [np.empty(0, np.int64)]
    for part in unit_parts(view):
        for units in pending_units(part, -(1 << 62)):
            offsets = units["offset_py"].astype(np.int64)
            enqueued.append(offsets[offsets >= first_py])
    known = np.unique(np.concatenate(enqueued))
    fresh = ~contains(known, positions) & ~handled.hold(positions)
    return handled, Entries(positions[fresh], sizes[fresh])


def _queued(view: StoreView) -> tuple[Places, Places]:
    """Positions and sizes of the entries that the timer service has not passed, from its queue."""
    positions, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for _, queue_id, queue in view.queues([TIMER_TOPIC]):
        first = max(view.queue_offset * QUEUE_UNIT.size, queue.start)
        for start, low, high in queue.segments(first, queue.end) if queue_id == 0 else ():
            part = FilePart(queue.path(start), start, low, high - (high - low) % QUEUE_UNIT.size)
            for _, data in part.chunks(QUEUE_COUNT * QUEUE_UNIT.size):
                units = np.frombuffer(data, QUEUE_UNIT.dtype)
                at, size = units["phy_offset"].astype(np.int64), units["size"].astype(np.int64)
                visible = (size > 0) & (at >= view.log.start) & (at + size <= view.log.end)
                positions.append(at[visible])
                sizes.append(size[visible])
                if not size.all():
                    break
    return np.concatenate(positions), np.concatenate(sizes)


def _handled(view: StoreView, first_py: int) -> Handled:
    """As recovery reads it from the log's tail."""
    origins, foreign = [np.empty(0, np.int64)], list[ForeignKey]()
    low = max(min(view.scan_py, first_py), view.log.start)
    for span in log_spans(view, low, view.log.end, ReadOptions(path=view.root, partitions=1)):
        for chunk in span.records():
            assert isinstance(chunk, RecordChunk)
            found, named = chunk.origins
            origins.append(found[named])
            late = chunk.heads["store_ms"] >= view.read_ms
            late |= chunk.heads["phy_offset"] >= first_py
            late &= ~named & have_within(chunk.properties, DEQUEUE.decode())
            for row in np.flatnonzero(late).tolist():
                key = foreign_key_in(chunk.record(row))
                if key is not None:
                    foreign.append(key)
    return Handled.with_keys(np.unique(np.concatenate(origins)), foreign)
