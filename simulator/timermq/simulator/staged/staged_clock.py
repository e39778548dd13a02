"""The wall clock of a simulation: trio's clock moved to a date, and everything clocks do wrong.

It steps in both directions, runs fast or slow, and stands still. Sleeps follow trio's own clock and
are not affected, as on a real machine.
"""

from __future__ import annotations

import trio

START_MS = 1_700_000_000_000
"""Wall clock at the beginning of a simulation, before any fault."""


class StagedClock:
    """A wall clock; reads need a running trio."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._base_ms = float(start_ms)
        self._since = 0.0
        self._rate = 1.0

    def now_ms(self) -> int:
        """The time of this clock, epoch milliseconds; may go back."""
        # The microsecond takes up what binary fractions of a second lose.
        return int(self._exact_ms() + 1e-3)

    def step(self, by_ms: int) -> None:
        """Set the clock forward or back."""
        self._base_ms += by_ms

    def run_at(self, rate: float) -> None:
        """Milliseconds that pass on it in one of trio's; 0: it stands still."""
        self._base_ms, self._since = self._exact_ms(), trio.current_time()
        self._rate = rate

    def _exact_ms(self) -> float:
        return self._base_ms + (trio.current_time() - self._since) * 1000 * self._rate
