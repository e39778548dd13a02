"""Stand-ins that several tests share."""

from __future__ import annotations

import trio

START_MS = 1_700_000_000_000


class VirtualClock:
    """The wall clock of a test: trio's clock, moved to a date, with steps on demand.

    Under ``autojump_clock`` a sleep of three days takes no time, and the wall clock is three days
    on.
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms

    def now_ms(self) -> int:
        """The time of trio's clock as milliseconds since the epoch."""
        # The microsecond takes up what binary fractions of a second lose.
        return self._start_ms + int(trio.current_time() * 1000 + 1e-3)

    def step(self, by_ms: int) -> None:
        """Set the wall clock forward or back; sleeps are not affected."""
        self._start_ms += by_ms


class ManualClock:
    """A wall clock that stands still until it is moved; needs no trio."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self.time_ms = start_ms

    def now_ms(self) -> int:
        """The time that the test has set, in milliseconds since the epoch."""
        return self.time_ms
