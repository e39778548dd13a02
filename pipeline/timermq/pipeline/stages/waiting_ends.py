"""Records that a copied log ends, and that still wait in the wheel of the follower.

Each broker draws the slot in which a message waits for its roll from the time at which it links it.
So master and follower have it in different slots, and the follower may pass the one of its own
before the master has rolled the message, or still have it ahead when the roll is copied. Positions
that hold for the slots of the master are not true for those of the follower: what the follower
needs to know of the log is told by its own units.
"""

from __future__ import annotations

import numpy as np

from timermq.timerlog import MAGIC_DELETE, TimerLog, slot_times
from timermq.timerstore.array_types import Flags, Int64s

from ..records.deduplication import contains
from ..recovery.done_reading import Ends

_NO_SLOT = -1


def waiting_from(timer_log: TimerLog, ends: Ends, read_ms: int) -> int | None:
    """Position of the first record that ends one which waits; None: none of them waits.

    A record that waits beside a delete of its own need not be known as done: the two are read
    together, or the record first.

    Args:
        timer_log: The log of all units.
        ends: What the log of messages tells.
        read_ms: Slots from here on wait.
    """
    if not len(ends):
        return None
    known = np.union1d(ends.origins, ends.positions)
    slots, delete_slots = _slots_of(timer_log, known, read_ms)
    waits_in = slots[np.searchsorted(known, ends.origins)]
    delete_in = delete_slots[np.searchsorted(known, ends.positions)]
    must_know: Flags = (waits_in != _NO_SLOT) & ~(ends.are_cancels & (delete_in >= waits_in))
    return min(ends.positions[must_know].tolist(), default=None)


def _slots_of(timer_log: TimerLog, known: Int64s, read_ms: int) -> tuple[Int64s, Int64s]:
    """Last slot in which each of some records waits, and in which it does as a delete."""
    slots, delete_slots = np.full((2, len(known)), _NO_SLOT, np.int64)
    for _, units in timer_log.scan(timer_log.min_pos):
        targets, offsets_py = slot_times(units), units["offset_py"].astype(np.int64)
        waits = (targets >= read_ms) & contains(known, offsets_py)
        rows = np.searchsorted(known, offsets_py[waits])
        np.maximum.at(slots, rows, targets[waits])
        is_delete = (units["magic"][waits] & MAGIC_DELETE) != 0
        np.maximum.at(delete_slots, rows[is_delete], targets[waits][is_delete])
    return slots, delete_slots
