"""The cost of a repair behind which slots of long ago are read again.

A roll window is two days, and some seconds in a plan. What waits rolls from one to the next through
all the time in between: a few times in the one, hundreds of thousands of times in the other. So a
plan leaves such a repair out.
"""

from __future__ import annotations

from timermq.repair.finding import Step
from timermq.repair.store_check import CheckedStore

ROLLS_IN_ALL_MAX = 5_000
"""Rolls that a repair may bring: some seconds of the processor."""


def rolls_behind(store: CheckedStore, waiting_count: int) -> int:
    """About how many rolls a repair brings.

    Args:
        store: To be repaired.
        waiting_count: Pending messages.
    """
    slots_ms = [
        one.subject
        for one in store.find()
        if one.step is Step.ENQUEUE_AGAIN and isinstance(one.subject, int)
    ]
    behind_ms = store.now_ms - min(slots_ms, default=store.now_ms)
    return behind_ms // store.timer_options.roll_window_ms * waiting_count
