"""What recovery cuts off the timer log, so that it holds nothing but units that can be relied on.

A cut costs no message: whatever stood behind it is enqueued again from the timer topic. A unit that
is left out but stays in the log would be linked by a later recovery, and its message come twice.
"""

from __future__ import annotations

import numpy as np
import structlog
from numpy.typing import NDArray

from timermq.timerlog import NO_POS, UNIT, TimerLog, Units, slot_times
from timermq.timerlog.segment import units_in

log = structlog.get_logger("timermq.pipeline.timer_log_repair")


def cut_bodiless(timer_log: TimerLog, log_end: int, start: int) -> None:
    """Cut off units whose messages a power cut took from the commit log, which ends at ``log_end``.

    Positions grow along the timer log, so they are its tail. Left alone they would name whatever
    message stands at that position next (issues #10668, #10741).
    """
    for positions, units in timer_log.scan(start):
        beyond = np.flatnonzero(units["offset_py"].astype(np.int64) + units["size_py"] > log_end)
        if len(beyond):
            timer_log.cut(int(positions[beyond[0]]))
            return


def cut_damaged(timer_log: TimerLog, read_ms: int) -> bool:
    """Cut the timer log where a unit is missing or a waiting chain breaks; whether it was cut.

    What stood behind is enqueued again, the missing unit's message with it. Only looked for when
    something went wrong, since it reads the whole log: a stage that meets a broken chain stops the
    service, and this start repairs it.
    """
    count = units_in(timer_log.segment_size)
    expected = timer_log.min_pos // timer_log.segment_size * count
    for positions, units in timer_log.scan(timer_log.min_pos):
        segments, inside = np.divmod(positions, timer_log.segment_size)
        numbers = segments * count + inside // UNIT.size
        bad = np.diff(numbers, prepend=expected - 1) != 1
        bad |= _breaks(timer_log, positions, units, read_ms)
        if bad.any():
            first = int(bad.argmax())
            segment, index = divmod(int(numbers[first - 1]) + 1 if first else expected, count)
            timer_log.cut(segment * timer_log.segment_size + index * UNIT.size)
            log.warning("timer log damaged", pos=timer_log.max_pos)
            return True
        expected = int(numbers[-1]) + 1
    return False


def _breaks(
    timer_log: TimerLog, positions: NDArray[np.int64], units: Units, read_ms: int
) -> NDArray[np.bool_]:
    """Which units wait, and name as the one before them what is no unit of their slot before it."""
    targets, prev_pos = slot_times(units), units["prev_pos"].astype(np.int64)
    # Below the log's start stood units whose messages are gone.
    is_first = (prev_pos == NO_POS) | ((prev_pos >= 0) & (prev_pos < timer_log.min_pos))
    is_linked = (prev_pos < positions) & (timer_log.targets(prev_pos) == targets)
    return np.asarray((targets >= read_ms) & ~is_first & ~is_linked, np.bool_)
