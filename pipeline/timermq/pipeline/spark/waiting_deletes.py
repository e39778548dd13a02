"""The deletes that wait: a small table beside the timer log, which each process of Spark joins.

The parts of the table are the deletes of each stretch, beside the broker's outlines. A task is told
where they are, and not what they say: that is in their records, and read by the first task of a
process that needs it. So the plan reads no delete, and a task is as small with a million as with
none. Handed over are the few places that no outline has: of the end of the log, and of entries of
the timer topic that have no unit yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog.outlines import stretches_of
from timermq.timerlog.stretch_outline import DELETE
from timermq.timerlog.stretch_outline import Deletes as DeletePlaces
from timermq.timerstore.array_types import Flags, Places

from ..records.deduplication import contains
from .log_stretches import derived, outlines_of, unit_parts
from .pending_facts import Deletes, named_by
from .record_gathering import gathered
from .store_view import LogView
from .timer_arrays import read_timers


@attrs.frozen(kw_only=True)
class WaitingDeletes:
    """Where the deletes of one plan are; the plan's key is all that is compared."""

    key: str
    """Of the plan, its own."""
    count: int = attrs.field(eq=False)
    """Deletes there, at most: those outside the window as well."""
    log: LogView = attrs.field(eq=False)
    timer_log: LogView = attrs.field(eq=False)
    read_ms: int = attrs.field(eq=False)
    precision_ms: int = attrs.field(eq=False)
    due_from: int = attrs.field(eq=False)
    due_to: int = attrs.field(eq=False)
    """Of other moments no delete is needed."""
    handed_over: DeletePlaces = attrs.field(eq=False)
    """Of stretches without an outline, and of entries."""
    derived_at: Places = attrs.field(eq=False)
    """Where the stretches begin that have none."""
    handled: Places = attrs.field(eq=False)
    """Positions of deletes that were handled beyond the checkpoint."""
    cleaned_to: int = attrs.field(eq=False)
    """Deletes before it were cleaned: they are done."""

    def load(self) -> Deletes:
        """What they say; read once by a process, as long as it works on one plan.

        Raises:
            SparkJobError: The store was cleaned meanwhile.
        """
        return _loaded(self) if self.count else Deletes()

    def places(self) -> DeletePlaces:
        """The deletes that can concern what is asked for.

        Raises:
            SparkJobError: The store was cleaned meanwhile.
        """
        rows = np.concatenate([self.handed_over, *self._kept()])
        return rows[self._concern(rows)]

    def _kept(self) -> Iterator[DeletePlaces]:
        """The deletes of stretches that had an outline when the work was planned."""
        outlines, derived_at = outlines_of(self.timer_log), set(self.derived_at.tolist())
        window = (self.read_ms, self.due_from, self.due_to, self.precision_ms)
        for whole in unit_parts(self.timer_log):
            kept = outlines.read(whole.start)
            for start, end in stretches_of(whole.start, self.timer_log.segment_size):
                if start >= whole.high or start in derived_at:
                    continue
                one = kept.get(start)
                if one is not None and not one.may_cancel(*window):
                    continue
                found = None if one is None else outlines.deletes(one)
                if found is None:
                    # The outline has gone since, or what stands beside it is damaged.
                    found = derived(attrs.evolve(whole, low=start, high=end))[1]
                yield found

    def _concern(self, rows: DeletePlaces) -> Flags:
        slots, offsets = rows["slot_ms"].astype(np.int64), rows["offset_py"].astype(np.int64)
        concern = (slots >= self.read_ms) & (offsets >= self.cleaned_to)
        in_window = (slots + self.precision_ms >= self.due_from) & (slots < self.due_to)
        concern &= in_window | (rows["is_told"] == 0)
        return np.asarray(concern & ~contains(self.handled, offsets), np.bool_)


def delete_rows(slots: Places, positions: Places, sizes: Places) -> DeletePlaces:
    """Places of deletes of which only their records tell the moment."""
    found = np.zeros(len(positions), DELETE.dtype)
    found["slot_ms"], found["offset_py"], found["size_py"] = slots, positions, sizes
    return found


@lru_cache(maxsize=1)
def _loaded(deletes: WaitingDeletes) -> Deletes:
    rows = deletes.places()
    positions, sizes = rows["offset_py"].astype(np.int64), rows["size_py"].astype(np.int64)
    slots, names = list[NDArray[np.int64]]([np.empty(0, np.int64)]), list[bytes]()
    for chunk, _ in gathered(deletes.log, positions, sizes):
        found_slots, found_names = named_by(chunk, read_timers(chunk, deletes.precision_ms))
        slots.append(found_slots)
        names += found_names
    return Deletes.of(np.concatenate(slots), names)
