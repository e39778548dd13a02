"""Durations of what operators make, and the histogram that holds them."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from timermq.broker.durations import BOUNDS_MS, FAILURE, SUCCESS, Durations
from timermq.broker.histogram import Histogram


@pytest.mark.parametrize(("took_ms", "place"), [(0, 0), (10, 0), (11, 1), (5_000, 4), (5_001, 5)])
def test_a_value_that_equals_a_bound_lies_within_it(took_ms: int, place: int) -> None:
    """The last place has what lies beyond all bounds."""
    histogram = Histogram(BOUNDS_MS)
    histogram.observe(took_ms)

    assert [place] == [at for at, count in enumerate(histogram.counts) if count]
    assert (histogram.count, histogram.total) == (1, took_ms)


def test_counts_of_others_are_added() -> None:
    """They have the same bounds."""
    histogram = Histogram((1, 2))
    histogram.observe(2)
    histogram.add([1, 1, 1], 7)

    assert (histogram.counts, histogram.total) == ([1, 2, 1], 9)
    with pytest.raises(ValueError, match="zip"):
        histogram.add([1], 1)


def test_each_thing_is_counted_with_the_time_of_all() -> None:
    """Several topics are made by one request, and are on the disk together."""
    clock = ManualClock()
    durations = Durations[str](clock.now_ms)
    with durations.making(["user", "user", "system"]):
        clock.time_ms += 50

    assert {key: one.counts[1] for key, one in durations.by_outcome.items()} == {
        (SUCCESS, "user"): 2,
        (SUCCESS, "system"): 1,
    }


def test_an_error_counts_as_a_failure() -> None:
    """A refusal is one too; a clock that was set back gives no negative duration."""
    clock = ManualClock()
    durations = Durations[str](clock.now_ms)

    def fail() -> None:
        with durations.making(["user"]):
            clock.time_ms -= 50
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()

    assert durations.by_outcome.keys() == {(FAILURE, "user")}
    assert durations.by_outcome[FAILURE, "user"].total == 0
