"""Looks at links: whether units and slots name units of the same slot.

For the slots these are some looks into the timer log. For all its units they would be millions,
here and there. But read in log order, the unit that a unit names is nearly always the newest one of
its slot so far. So the newest position of each slot is kept in a table, a link is good when it
names that one, and only the others are followed to where they point: a column of a chunk at a time,
ten million units take a third of a second.

The table is as long as the ring, and only the part that waits is used: 8 bytes a slot, whatever the
number of units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import NO_POS, UNIT, TimerLog, Units, slot_times
from timermq.timerstore.array_types import Int64s
from timermq.wheel.slot import Slots

FIT_COUNT = 8192
"""Slots whose units are looked at together: less than a megabyte of copies."""


def slots_fit(timer_log: TimerLog, live: Slots) -> bool:
    """Whether first and last unit of every slot of ``live`` are units of it: none dangles."""
    timer_log.will_need(np.concatenate((live["first_pos"], live["last_pos"])))
    for start in range(0, len(live), FIT_COUNT):
        some = live[start : start + FIT_COUNT]
        for column in ("first_pos", "last_pos"):
            if not (timer_log.targets(some[column]) == some["time_ms"]).all():
                return False
    return True


def slots_show_all(
    timer_log: TimerLog,
    live: Slots,
    read_ms: int,
    before_pos: int,
    *,
    precision_ms: int,
    ring_count: int,
) -> bool:
    """Whether the live slots reach every unit of theirs that stands before a position.

    A slot that was zeroed on the disk, or is as it was earlier, looks sound and forgets messages.
    """
    last_positions = np.full(ring_count + 1, NO_POS, np.int64)
    rows = _ring_rows(live["time_ms"], read_ms, precision_ms, ring_count)
    last_positions[rows] = live["last_pos"]
    last_positions[-1] = NO_POS
    for positions, units in timer_log.scan(timer_log.min_pos):
        targets = slot_times(units)
        waiting = (positions < before_pos) & (targets >= read_ms)
        rows = _ring_rows(targets[waiting], read_ms, precision_ms, ring_count)
        if (last_positions[rows] < positions[waiting]).any():
            return False
    return True


def _ring_rows(targets: Int64s, read_ms: int, precision_ms: int, ring_count: int) -> Int64s:
    """Indexes of slots in a table of the ring from ``read_ms`` on; ``ring_count``: in none."""
    ticks = targets // precision_ms
    is_slot = ticks * precision_ms == targets
    ticks -= read_ms // precision_ms
    is_slot &= (ticks >= 0) & (ticks < ring_count)
    return np.where(is_slot, ticks, ring_count)


class LinkCheck:
    """One pass over a timer log, chunk after chunk from its start.

    Args:
        timer_log: The log.
        read_ms: Slots from here on wait; the links of others are no question any more.
        precision_ms: Width of a slot.
        ring_count: Slots from ``read_ms`` on that are remembered; of others each link is followed.
    """

    def __init__(
        self, timer_log: TimerLog, read_ms: int, *, precision_ms: int, ring_count: int
    ) -> None:
        self._timer_log = timer_log
        self._read_ms = read_ms
        self._precision_ms = precision_ms
        # Position of the newest unit of each slot, plus 1: 0 is none, and fits NO_POS. The last
        # entry is for whatever is no slot of the ring; it stays 0.
        self._newest = np.zeros(ring_count + 1, np.int64)

    def good_count(self, first: int, units: Units) -> int:
        """How many units from the front have good links.

        Args:
            first: Position of the first; the others follow without a gap.
            units: Units only, behind those of the call before.
        """
        positions = first + np.arange(len(units), dtype=np.int64) * UNIT.size
        targets, prev_pos = slot_times(units), units["prev_pos"].astype(np.int64)
        ring_count = len(self._newest) - 1
        slots = _ring_rows(targets, self._read_ms, self._precision_ms, ring_count)
        is_newest = self._newest[slots] == prev_pos + 1
        self._newest[slots] = positions + 1  # of several units of a slot the last one counts
        self._newest[-1] = 0
        others = np.flatnonzero(~is_newest & (targets >= self._read_ms))
        if len(others):
            found = self._found(first, positions[others], prev_pos[others], targets)
            # Below the log's start stood units whose messages are gone.
            is_first = prev_pos[others] == NO_POS
            is_first |= (prev_pos[others] >= 0) & (prev_pos[others] < self._timer_log.min_pos)
            bad = np.flatnonzero(~is_first & (found != targets[others]))
            if len(bad):
                return int(others[bad[0]])
        return len(units)

    def _found(
        self, first: int, positions: Int64s, prev_pos: Int64s, targets: Int64s
    ) -> NDArray[np.int64]:
        """Slot times of the units at ``prev_pos``, ``NO_POS`` where no unit stands before.

        Args:
            first: Where the chunk begins.
            positions: Which of its units name them.
            prev_pos: What they name.
            targets: Slot times of all units of the chunk.
        """
        found = np.full(len(positions), NO_POS, np.int64)
        is_before = prev_pos < first
        found[is_before] = self._timer_log.targets(prev_pos[is_before])
        index, rest = np.divmod(prev_pos - first, UNIT.size)
        is_inside = ~is_before & (prev_pos < positions) & (rest == 0)
        found[is_inside] = targets[index[is_inside]]
        return found
