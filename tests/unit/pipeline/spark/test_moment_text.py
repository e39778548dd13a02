"""Moments in all their forms are epoch milliseconds, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.moment_text import Moment, moment_ms, option_text

NOON_MS = 1_798_110_000_000
BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NOON_MS, NOON_MS),
        (str(NOON_MS), NOON_MS),
        ("2026-12-24T12:00:00+01:00", NOON_MS),
        ("2026-12-24t11:00z", NOON_MS),
        ("2026-12-24 12:00:00.0001+0100", NOON_MS + 1),
        (datetime(2026, 12, 24, 11, tzinfo=UTC), NOON_MS),
        (datetime(2026, 12, 24, 12, microsecond=1, tzinfo=BERLIN), NOON_MS + 1),
        (0, 0),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_forms(given: Moment, expected: int) -> None:
    """Numbers, texts and dates mean the same; what is finer than a millisecond is rounded up."""
    assert expected == moment_ms(given, "here")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "-1",
        "٣",
        "9" * 19,
        "9" * 30,
        "noon",
        "2026-12-24T12:00:00",
        "2026-02-30T12:00Z",
        -1,
        2**63,
        "1969-12-31T23:59:59Z",
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_refusals(given: Moment) -> None:
    """Another form, no such date, without a zone, before 1970."""
    with pytest.raises(SparkJobError, match="here: expected epoch milliseconds, or a moment with"):
        moment_ms(given, "here")


def test_a_date_without_a_zone() -> None:
    """It would mean another moment on another machine."""
    with pytest.raises(SparkJobError, match=r"t: option due_to: expected a moment that knows its"):
        option_text("t", "due_to", datetime(2026, 12, 24))


def test_texts_of_options() -> None:
    """Spark hands on texts alone."""
    assert ["a", "5", str(NOON_MS)] == [
        option_text("t", "x", one) for one in ("a", 5, datetime(2026, 12, 24, 11, tzinfo=UTC))
    ]
