"""What `timermq spark report` prints: a line a question."""

from __future__ import annotations

import argparse
from datetime import UTC
from typing import Any

import attrs
import pytest

from timermq.cli.spark.report import lines, zone
from timermq.pipeline.spark.jobs.report_summary import Summary

NINE_MS = 1_700_038_800_000
"""2023-11-15T09:00:00Z."""
DAY_MS = 86_400_000
NOTHING = Summary(
    levels_left=0,
    store="/store",
    begin_ms=NINE_MS,
    pending={
        "count": 0,
        "bytes": 0,
        "topics": 0,
        "overdue": 0,
        "first_ms": None,
        "last_ms": None,
    },
    topics=[],
    hot_slots=[],
    rate=None,
    forecast=None,
    rolls={"count": 0, "first_ms": None, "last_ms": None},
    delays=[],
    lateness=None,
    late_topics=[],
    late_hours=[],
)
LATE = {"count": 5, "early": 0, "p50_ms": 2, "p90_ms": 4, "p99_ms": 31, "max_ms": 1_200}


def late_minute(late_ms: int) -> dict[str, Any]:
    """A minute of a forecast."""
    return {
        "minute_ms": NINE_MS,
        "count": 41_000,
        "late_ms": late_ms,
        "peak_ms": NINE_MS,
        "waiting": 7,
    }


def test_levels() -> None:
    """Where RocketMQ left messages of levels, a line says so, also when all of them are through."""
    assert [
        "pending    nothing",
        "levels     1,069 messages stand in queues of classic levels; what waits is counted",
    ] == lines(attrs.evolve(NOTHING, levels_left=1_069), UTC)[:2]


def test_a_store_with_nothing_in_it() -> None:
    """Nothing waits, nothing was delivered; there is nothing to forecast with."""
    assert [
        "pending    nothing",
        "forecast   none: no deliveries, so the rate of this broker is not known: "
        "give --drain-rate",
        "delivered  nothing",
    ] == lines(NOTHING, UTC)


def test_a_full_store() -> None:
    """Every question is answered in one line; what is too much is counted."""
    topics = [{"topic": f"t{number}", "count": 1_000 - number} for number in range(5)]
    full = attrs.evolve(
        NOTHING,
        pending={
            "count": 41_002,
            "bytes": 8_200_400,
            "topics": 5,
            "overdue": 2,
            "first_ms": NINE_MS - 5,
            "last_ms": NINE_MS + 2 * DAY_MS,
        },
        topics=topics,
        hot_slots=[{"second_ms": NINE_MS, "due": 41_000, "topics": {"t0": 40_000, "t1": 1_000}}],
        rate={"per_second": 1_000.4, "full_seconds": 12},
        forecast={"late_minutes": 5, "worst": [late_minute(41_000)]},
        rolls={"count": 9, "first_ms": NINE_MS, "last_ms": NINE_MS + DAY_MS},
        delays=[{"topic": "t0", "rolled": 3, "p50_ms": DAY_MS, "p90_ms": DAY_MS, "p99_ms": DAY_MS}],
        lateness=LATE,
        late_topics=[{"topic": "t0", **LATE}],
    )

    assert [
        "pending    41,002 messages of 5 topics, 8.2 MB, 2023-11-15T08:59:59.995+00:00 to "
        "2023-11-17T09:00:00+00:00, 2 of them overdue",
        "topics     t0 1,000, t1 999, t2 998, 2 more",
        "fullest    2023-11-15T09:00:00+00:00 41,000 (t0 40,000, t1 1,000)",
        "forecast   at 1,000/s, the median of 12 seconds in which messages waited: "
        "2023-11-15T09:00:00+00:00 will be 41s late, 2 minutes more",
        "rolls      9 messages are enqueued again, from 2023-11-15T09:00:00+00:00 to "
        "2023-11-16T09:00:00+00:00",
        "planned    t0 p50 1d, p90 1d, p99 1d ahead, 3 at least as long",
        "delivered  5 messages, 0 early; late by p50 2ms, p90 4ms, p99 31ms, at most 1s200ms",
        "latest     t0 p99 31ms",
    ] == lines(full, UTC)


def test_a_forecast_without_trouble() -> None:
    """A rate that was given, and enough of it."""
    calm = attrs.evolve(
        NOTHING,
        rate={"per_second": 50_000.0, "full_seconds": None},
        forecast={"late_minutes": 0, "worst": []},
    )

    assert "forecast   at 50,000/s, as given: nothing will be late by a second" in lines(calm, UTC)


def test_a_broker_that_was_never_behind() -> None:
    """There were deliveries, but none tells how many it could do."""
    (line,) = [
        line
        for line in lines(attrs.evolve(NOTHING, lateness=LATE), UTC)
        if line.startswith("forecast")
    ]

    assert "none: messages never waited for a whole second" in line


def test_zones() -> None:
    """By their names; another is a usage error in one line."""
    assert UTC is zone("UTC")
    for text in ("Nowhere/Land", "../etc/passwd", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a zone such as UTC"):
            zone(text)
