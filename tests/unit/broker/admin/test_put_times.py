"""Tests of how long puts took."""

from __future__ import annotations

import pytest

from timermq.broker.admin.put_times import LATENCY_BOUNDS_MS, PutTimes


def times_of(*took_ms: int) -> PutTimes:
    """The times of puts, a minute later."""
    now_ms = 0
    times = PutTimes(lambda: now_ms)
    times.turn(0.0)
    for took in took_ms:
        now_ms = took
        times.count(0, 1)
    times.turn(60.0)
    return times


def test_the_bounds_are_rocketmq_s() -> None:
    """Seventy-five of them, closer together where puts are fast."""
    assert len(LATENCY_BOUNDS_MS) == 75
    assert LATENCY_BOUNDS_MS[:2] == (1, 2)
    assert LATENCY_BOUNDS_MS[19:21] == (20, 22)
    assert LATENCY_BOUNDS_MS[-10:-8] == (1_000, 2_000)
    assert LATENCY_BOUNDS_MS[-1] == 10_000


def test_the_spread() -> None:
    """A number a bucket, each with a blank behind it; a time on a bound is in the next bucket."""
    times = times_of(0, 0, 9, 10, 49, 50, 999, 1_000, 9_999, 10_000, 70_000)

    assert times.spread() == (
        "[<=0ms]:2 [0~10ms]:1 [10~50ms]:2 [50~100ms]:1 [100~200ms]:0 [200~500ms]:0 "
        "[500ms~1s]:1 [1~2s]:1 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:1 [10s~]:2 "
    )
    assert times.max_ms == 70_000


def test_the_last_whole_minute_is_told() -> None:
    """Before the first has passed there is none, in Java's word."""
    times = PutTimes(lambda: 5)
    times.turn(100.0)
    times.count(0, 3)
    times.turn(159.0)
    assert (times.spread(), times.latency_ms(0.99)) == ("null", 0.0)
    times.turn(160.0)
    assert "[0~10ms]:3 " in times.spread()
    times.turn(220.0)
    assert "[0~10ms]:0 " in times.spread()
    assert times.max_ms == 5


@pytest.mark.parametrize(
    ("took_ms", "share", "expected"),
    [
        ([0] * 100, 0.99, 0.99),
        ([0] * 162 + [4] * 18, 0.99, 3 + 16 / 18),
        ([3] * 100, 0.5, 2.5),
        ([30] * 10, 0.999, 28 + 2 * 0.9),
        ([90_000], 0.999, 0.0),
        ([90_000] * 1_000, 0.999, 10_000.0),
        ([], 0.99, 0.0),
    ],
)
def test_the_latency(took_ms: list[int], share: float, expected: float) -> None:
    """Between two bounds as far as the share lies between their counts, as RocketMQ has it."""
    assert times_of(*took_ms).latency_ms(share) == pytest.approx(expected)


def test_a_clock_that_goes_back() -> None:
    """No put takes less than no time."""
    times = PutTimes(lambda: 0)
    times.count(5_000, 1)

    assert times.max_ms == 0
