"""The wall clock as the pipeline sees it: what time it is, in whole milliseconds.

Two clocks are in play. This one says *when* a message is due; trio's own clock says *how long* to
sleep and nothing about the date. The pipeline reads the time nowhere else, so a test that hands in
a clock over trio's ``MockClock`` lets days pass in milliseconds.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the pipeline gets the time from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step in both directions, as wall clocks do."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, rounded down: a message is never due before its time."""
        return time.time_ns() // 1_000_000
