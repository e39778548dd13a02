"""Moments as clients name them, and as epoch milliseconds; the one place that reads the clock."""

from __future__ import annotations

import datetime
import time

_MILLISECOND = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def epoch_ms(when: datetime.datetime | int) -> int:
    """Epoch milliseconds of a moment; microseconds count as one more, lest it be early."""
    if isinstance(when, int):
        return when
    return delay_ms(when - _EPOCH)


def moment(time_ms: int) -> datetime.datetime:
    """The moment of epoch milliseconds, in UTC."""
    return _EPOCH + datetime.timedelta(milliseconds=time_ms)


def delay_ms(duration: datetime.timedelta) -> int:
    """The length of a duration in milliseconds, rounded up."""
    return -(-duration // _MILLISECOND)


def now_ms() -> int:
    """The wall clock's time, in epoch milliseconds."""
    return time.time_ns() // 1_000_000
