"""A rate limit for log lines: one a minute of each kind, as any client can cause them."""

from __future__ import annotations

import attrs
import trio

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines about the same."""


@attrs.define(eq=False)
class LogLimit:
    """Counts the events of one kind since the last line about it."""

    count: int = 0
    logged_at: float = float("-inf")
    """trio's time of the last log line."""

    def take(self) -> int:
        """Count one more; how many a line is to tell of now, 0 while the last one is too young."""
        self.count += 1
        now = trio.current_time()
        if now - self.logged_at < LOG_INTERVAL_S:
            return 0
        count, self.count, self.logged_at = self.count, 0, now
        return count
