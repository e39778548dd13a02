"""Which records the timers need: what cleaning must leave in the commit log.

A recovery begins where the checkpoint on the disk says, which may be behind the positions of this
run. It reads again the slots that have been closed since: their messages are done, which is seen
from ``scan_py`` on, but for those that are on their way; their deletes leave no such trace. Without
a checkpoint it links every unit, and only the log tells which of them are done: so whatever a unit
names is needed until there is one.
"""

from __future__ import annotations

import numpy as np

from timermq.timerlog import MAGIC_DELETE, slot_times
from timermq.timerlog.unit import Units
from timermq.timerstore.array_types import Flags
from timermq.timerstore.message_store import MessageStore

from ..records.timer_record import TIMER_TOPIC
from ..state.timer_state import TimerState
from .timer_files import TimerFiles


def needed_from(store: MessageStore, files: TimerFiles, state: TimerState) -> int | None:
    """Position of the oldest record that this run or a recovery needs; None without any."""
    checkpoint = files.checkpoint.durable
    read_ms, queue_offset = state.read_ms, state.commit_queue_offset
    pins = [state.oldest_leaving_py()]
    if checkpoint is not None:
        read_ms = min(read_ms, checkpoint.read_ms)
        queue_offset = min(queue_offset, checkpoint.queue_offset)
        pins.append(checkpoint.scan_py)
        pins.append(_oldest_body(files, read_ms, state.read_ms))
    else:
        pins.append(_oldest_of_all(files))
    pins.append(_oldest_entry(store, queue_offset))
    return min((one for one in pins if one is not None), default=None)


def _oldest_body(files: TimerFiles, read_ms: int, closed_ms: int) -> int | None:
    """Of the units that are still to be read, and of deletes in slots from ``read_ms`` on."""
    oldest_pos = files.wheel.oldest_pos(read_ms)
    if oldest_pos is None:
        return None

    def are_needed(units: Units) -> Flags:
        slots = slot_times(units)
        are_deletes = (units["magic"] & MAGIC_DELETE) != 0
        return np.asarray((slots >= closed_ms) | ((slots >= read_ms) & are_deletes), np.bool_)

    # A broker before this one may have let go of the oldest unit.
    return files.timer_log.bodies.oldest(max(oldest_pos, files.timer_log.min_pos), are_needed)


def _oldest_of_all(files: TimerFiles) -> int | None:
    """Position of the oldest record that any unit names; None without any."""

    def are_needed(units: Units) -> Flags:
        return np.ones(len(units), np.bool_)

    return files.timer_log.bodies.oldest(files.timer_log.min_pos, are_needed)


def _oldest_entry(store: MessageStore, queue_offset: int) -> int | None:
    """Position of the first message of the timer topic from a queue offset on."""
    queue = store.queue(TIMER_TOPIC, 0)
    if queue is None or queue_offset >= queue.max_offset:
        return None
    units = queue.units(max(queue_offset, queue.min_offset), 1)
    return int(units["phy_offset"][0]) if len(units) else None
