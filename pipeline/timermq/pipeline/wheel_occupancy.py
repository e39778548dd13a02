"""How full the wheel is: what waits in slots that are not read yet, counted by spans of time.

One look at the wheel serves any number of questions. With slots at 1, 2, 2 and 7 s::

    buckets(from_ms=1_000, width_ms=2_000, count=3)   [3, 0, 0]     1..2 s, 3..4 s, 5..6 s
    beyond them                                       1             the one at 7 s

A slot's number counts a delete as minus one, as RocketMQ does, and a message that rolls stands
where it rolls.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.wheel import Slots


@attrs.frozen(eq=False, kw_only=True)
class WheelOccupancy:
    """The live slots at one moment."""

    times: NDArray[np.int64]
    """Of the slots, ascending, epoch milliseconds."""
    nums: NDArray[np.int64]
    precision_ms: int

    @classmethod
    def of(cls, live: Slots, precision_ms: int) -> WheelOccupancy:
        """How full these slots are; nothing else is kept of them."""
        return cls(
            times=live["time_ms"], nums=live["num"].astype(np.int64), precision_ms=precision_ms
        )

    @property
    def pending(self) -> int:
        """Number of messages in all live slots; a delete counts as minus one."""
        return int(self.nums.sum())

    def overdue_ms(self, now_ms: int) -> int:
        """How long the oldest slot is over already; 0 while none is."""
        if not len(self.times):
            return 0
        return max(0, now_ms - int(self.times[0]) - self.precision_ms)

    def buckets(self, *, from_ms: int, width_ms: int, count: int) -> tuple[int, ...]:
        """The pending messages, by spans of time from a moment on.

        Args:
            from_ms: Beginning of the first bucket; slots before it count in it too.
            width_ms: Of a bucket.
            count: Of buckets; slots beyond the last one are left out.
        """
        ends = from_ms + width_ms * np.arange(1, count + 1, dtype=np.int64)
        totals = np.concatenate(([0], np.cumsum(self.nums)))
        reached = totals[np.searchsorted(self.times, ends)]
        return tuple(np.diff(reached, prepend=0).tolist())

    def next_slots(self, count: int) -> tuple[tuple[int, int], ...]:
        """Time and number of the first slots."""
        return tuple(zip(self.times[:count].tolist(), self.nums[:count].tolist(), strict=True))
