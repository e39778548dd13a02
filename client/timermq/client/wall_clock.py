"""The client's wall clock: the one place where it reads the date."""

from __future__ import annotations

import time


def now_ms() -> int:
    """What the wall clock shows, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
