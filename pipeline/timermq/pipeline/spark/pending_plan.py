"""The plan of a read of what will fire: which units each task looks at, and what it is told.

The outlines of the timer log tell which stretches hold nothing that is asked for; these are left
out. Of a stopped store recovery knows what was handled, and which entries of the timer topic have
no unit yet. Of a live one the same is read from its files, between the positions that it has
published.
"""

from __future__ import annotations

from uuid import uuid4

import attrs
import numpy as np

from timermq.timerlog.stretch_outline import NO_DELETES
from timermq.timerlog.stretch_outline import Deletes as DeletePlaces
from timermq.timerlog.unit import UNIT, are_units
from timermq.timerstore.array_types import Places
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT

from ..cancel.pending_deletes import QUEUE_COUNT, queued_entries
from ..records.deduplication import contains
from ..records.foreign_key import ForeignKey, foreign_key_in
from ..records.timer_properties import DEQUEUE
from ..records.timer_record import TIMER_TOPIC
from .byte_arrays import have_within
from .file_part import FilePart
from .log_places import log_spans
from .log_stretches import Stretch, cut_for_tasks, outlines_of, stretches
from .options import INT64_MAX, ReadOptions
from .pending_facts import Bounds, Handled, name_another
from .record_chunks import RecordChunk
from .record_gathering import gathered
from .store_view import StoreView
from .timer_arrays import read_timers
from .unit_runs import UnitRun, runs_of
from .waiting_deletes import WaitingDeletes, delete_rows


@attrs.frozen(eq=False)
class Entries:
    """Entries of the timer topic that have no unit yet."""

    positions: Places
    sizes: Places


@attrs.frozen(eq=False)
class PlannedTask:
    """The units that a task looks at."""

    runs: tuple[UnitRun, ...]
    bounds: Bounds
    """Of all of them."""


@attrs.frozen(eq=False)
class Plan:
    """The tasks, the handled and cancelled messages, and the entries without a unit."""

    tasks: tuple[PlannedTask, ...]
    handled: Handled
    deletes: WaitingDeletes
    entries: Entries

    @classmethod
    def of(cls, view: StoreView, options: ReadOptions) -> Plan:
        """Make it.

        Args:
            view: The store.
            options: What is asked for.

        Raises:
            StoreError: The store is damaged; it was cleaned meanwhile.
        """
        log = list(stretches(view.timer_log))
        handled, entries = _of_live(view, log) if view.is_live else _of_stopped(view)
        wanted = [one for one in log if _is_wanted(one, view, options)]
        tasks = [
            PlannedTask(runs_of(some), _bounds(some)) for some in cut_for_tasks(wanted, options)
        ]
        deletes = _deletes(view, log, handled, entries, options)
        return cls(tuple(tasks), handled, deletes, entries)


def _is_wanted(stretch: Stretch, view: StoreView, options: ReadOptions) -> bool:
    """Whether a message of it may wait, and be due when it is asked for."""
    outline, precision_ms = stretch.outline, view.timer_options.timer_precision_ms
    return not outline.is_read(view.read_ms) and outline.may_be_due(
        options.due_from, options.due_to, precision_ms
    )


def _bounds(some: list[Stretch]) -> Bounds:
    """Between which positions the records of some units lie."""
    return Bounds(
        min(one.outline.first_py for one in some), max(one.outline.last_py for one in some)
    )


def _deletes(
    view: StoreView, log: list[Stretch], handled: Handled, entries: Entries, options: ReadOptions
) -> WaitingDeletes:
    """Where the deletes that wait are."""
    precision_ms = view.timer_options.timer_precision_ms
    window = (view.read_ms, options.due_from, options.due_to, precision_ms)
    waiting = [one for one in log if one.outline.may_cancel(*window)]
    of_entries = _among(view, entries)
    handed_over = [one.deletes for one in waiting if one.deletes is not None]
    kept = [one for one in waiting if one.deletes is None]
    return WaitingDeletes(
        key=uuid4().hex,
        count=sum(one.outline.delete_count for one in waiting) + len(of_entries),
        log=view.log,
        timer_log=view.timer_log,
        read_ms=view.read_ms,
        precision_ms=precision_ms,
        due_from=options.due_from,
        due_to=options.due_to,
        handed_over=np.concatenate([NO_DELETES, *handed_over, of_entries]),
        derived_at=np.array([one.part.low for one in log if one.deletes is not None], np.int64),
        handled=_handled_deletes(view, kept, handed_over, handled),
        cleaned_to=handled.cleaned_to,
    )


def _handled_deletes(
    view: StoreView, kept: list[Stretch], handed_over: list[DeletePlaces], handled: Handled
) -> Places:
    """Positions of the deletes that were handled beyond the checkpoint: among few deliveries."""
    origins, outlines = handled.origins, outlines_of(view.timer_log)
    if not len(origins):
        return origins
    found = [one["offset_py"].astype(np.int64) for one in handed_over]
    for one in kept:
        low, high = np.searchsorted(origins, [one.outline.first_py, one.outline.last_py + 1])
        table = outlines.deletes(one.outline) if low < high else None
        if table is not None:
            found.append(table["offset_py"].astype(np.int64))
    return np.intersect1d(origins, np.concatenate([np.empty(0, np.int64), *found]))


def _among(view: StoreView, entries: Entries) -> DeletePlaces:
    """The places of the deletes among entries."""
    positions, sizes = entries.positions, entries.sizes
    found = [np.empty(0, np.intp)]
    for chunk, rows in gathered(view.log, positions, sizes):
        timers = read_timers(chunk, view.timer_options.timer_precision_ms)
        found.append(rows[name_another(chunk, timers)])
    rows = np.concatenate(found)
    return delete_rows(np.full(len(rows), INT64_MAX), positions[rows], sizes[rows])


def _of_stopped(view: StoreView) -> tuple[Handled, Entries]:
    with view.recovered() as offline:
        timers = offline.timers
        queue = offline.store.queue(TIMER_TOPIC, 0)
        end = 0 if queue is None else queue.max_offset
        found = queued_entries(offline.store, timers.queue_offset, end, timers.already_done)
        places = np.array([place[1:] for place in found], np.int64).reshape(-1, 2)
        return Handled.of(timers.already_done), Entries(places[:, 0], places[:, 1])


def _of_live(view: StoreView, log: list[Stretch]) -> tuple[Handled, Entries]:
    positions, sizes = _queued(view)
    first_py = int(positions[0]) if len(positions) else view.log.end
    handled = _handled(view, first_py)
    enqueued = [np.empty(0, np.int64)]
    for one in log:
        if one.outline.last_py >= first_py:
            data = one.part.read(one.part.low, one.part.high)
            units = np.frombuffer(data, UNIT.dtype)
            offsets = units["offset_py"][are_units(units)].astype(np.int64)
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
