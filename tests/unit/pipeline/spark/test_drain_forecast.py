"""A forecast says what a broker that delivers one message after the other would do."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.spark.jobs.drain_forecast import (
    DueSeconds,
    LateMinutes,
    by_minute,
    lateness,
)

NINE_MS = 1_700_006_400_000
"""A whole hour."""


def due_seconds(moments: list[int]) -> DueSeconds:
    """Messages by their moments, as a store has them by the second."""
    groups = [list(group) for _, group in groupby(sorted(moments), lambda one: one // 1000)]
    return DueSeconds(
        first_ms=np.array([group[0] for group in groups], np.int64),
        last_ms=np.array([group[-1] for group in groups], np.int64),
        counts=np.array([len(group) for group in groups], np.int64),
    )


def forecast(moments: list[int], rate: float, begin_ms: int = 0) -> LateMinutes:
    """What is forecast of messages."""
    due = due_seconds(moments).from_moment(begin_ms)
    return by_minute(due, lateness(due, rate))


def delivered_one_by_one(moments: list[int], rate: float) -> dict[int, float]:
    """How late the latest of each second is when each message takes its time, in order."""
    free_ms, late_ms = 0.0, dict[int, float]()
    for moment in sorted(moments):
        free_ms = max(free_ms, moment) + 1000 / rate
        second = moment // 1000
        late_ms[second] = max(late_ms.get(second, 0.0), free_ms - moment)
    return late_ms


@given(
    st.lists(st.tuples(st.integers(0, 9_999), st.integers(1, 30)), min_size=1, max_size=40),
    st.sampled_from([0.5, 1.0, 3.0, 20.0, 1000.0]),
)
def test_it_is_right_to_the_second(runs: list[tuple[int, int]], rate: float) -> None:
    """However messages lie in their seconds: a second and a message at most, never more."""
    moments = [moment for moment, count in runs for _ in range(count)]
    expected = delivered_one_by_one(moments, rate)

    found = lateness(due_seconds(moments), rate)

    for late_ms, simulated_ms in zip(found.late_ms.tolist(), expected.values(), strict=True):
        assert late_ms - 1000 / rate - 1 <= simulated_ms <= late_ms + 1000 + 1000 / rate + 1


@given(
    st.lists(st.tuples(st.integers(0, 19), st.integers(1, 5_000)), min_size=1, max_size=20),
    st.sampled_from([1.0, 100.0, 997.0]),
)
def test_bursts_are_exact(bursts: list[tuple[int, int]], rate: float) -> None:
    """What is due at one instant of its second is forecast to the millisecond."""
    counts = dict(bursts)
    moments = [second * 1000 for second, count in counts.items() for _ in range(count)]
    expected = delivered_one_by_one(moments, rate)

    found = lateness(due_seconds(moments), rate)

    assert [] == [
        pair
        for pair in zip(expected.values(), found.late_ms.tolist(), strict=True)
        if abs(pair[0] - pair[1]) > 1
    ]


def test_a_burst_is_late_by_all_that_it_takes() -> None:
    """41,000 messages at nine o'clock, a thousand a second."""
    (row,) = forecast([NINE_MS] * 41_000, 1000).rows()

    assert {
        "minute_ms": NINE_MS,
        "count": 41_000,
        "late_ms": 41_000,
        "peak_ms": NINE_MS,
        "waiting": 41_000,
    } == row


def test_what_waits_makes_others_late() -> None:
    """A message a minute behind a burst of ninety seconds waits for the rest of it."""
    rows = forecast([NINE_MS] * 9_000 + [NINE_MS + 60_000] + [NINE_MS + 120_000], 100).rows()

    assert [90_000, 30_010, 10] == [row["late_ms"] for row in rows]
    assert [9_000, 3_001, 1] == [row["waiting"] for row in rows]


def test_what_is_overdue_is_due_when_the_forecast_begins() -> None:
    """Messages of yesterday are late by what they take from now on, and hold up those of now."""
    yesterday, now_ms = NINE_MS - 86_400_000, NINE_MS + 30_000

    (row,) = forecast([yesterday, *[yesterday + 5_000] * 999, now_ms + 500], 100, now_ms).rows()

    assert (NINE_MS, 1_001, 10_000, now_ms) == (
        row["minute_ms"],
        row["count"],
        row["late_ms"],
        row["peak_ms"],
    )


def test_a_rate_that_suffices_leaves_nothing_late() -> None:
    """A hundred messages spread over each second, and as many delivered."""
    moments = [NINE_MS + 10 * number for number in range(6_000)]

    (row,) = forecast(moments, 101).rows()

    assert 100 > row["late_ms"]
    assert 10 > row["waiting"]


def test_nothing_pending() -> None:
    """With nothing pending the forecast has no rows."""
    assert [] == forecast([], 1000).rows()
    assert 0 == len(forecast([], 1000).columns()["late_ms"])
