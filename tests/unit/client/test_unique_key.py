"""Tests of message ids: all differ, whatever the clock tells."""

from __future__ import annotations

import re

from fakes import ManualClock
from timermq.client.unique_key import UniqueKeys


def test_ids_differ() -> None:
    """Neither one producer nor two in one process and millisecond make an id twice."""
    clock = ManualClock()
    producers = [UniqueKeys(clock.now_ms), UniqueKeys(clock.now_ms)]
    ids = [one.next() for one in producers for _ in range(100)]

    assert 200 == len(set(ids))
    assert all(re.fullmatch("[0-9A-F]{32}", one) for one in ids)


def test_any_clock_will_do() -> None:
    """A clock before 1970 or after the year 10000 makes ids too."""
    for time_ms in (-1, 2**60):
        assert 32 == len(UniqueKeys(ManualClock(time_ms).now_ms).next())
