"""The window of near messages: what is due within it goes to the broker, the rest waits in Parquet.

A row that is due beyond the broker's maximum is refused when it is adopted, when no caller is
left to tell; so a window that may let such a row through is refused before anything is staged.
"""

from __future__ import annotations

from timermq.remoting.bulk import BulkLimits

from ..errors import SparkJobError
from .parquet_files import DAY_MS


def check_window(window_ms: int, limits: BulkLimits, *, whole_days: bool = False) -> None:
    """Compare a window with what the broker takes.

    Args:
        window_ms: From the moment of the job on.
        limits: The broker's.
        whole_days: A day that begins within the window goes to the broker up to its end.

    Raises:
        SparkJobError: The window is too wide.
    """
    most = max(limits.delay_max_ms - (DAY_MS if whole_days else 0), 0)
    if window_ms > most:
        limit = "a day less than the broker's" if whole_days else "the broker's"
        raise SparkJobError(
            f"window: expected at most {most} ms, {limit} timer_max_delay_sec, found {window_ms}"
        )
