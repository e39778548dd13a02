"""Moments: columns of all kinds in epoch milliseconds, and which of them are asked about."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from timermq.pipeline.spark.sink.moments import Moments, moments_of

JOB_MS = 1_000
LATEST_MS = 100_000
NOW_US = JOB_MS * 1000


def read(column: str, values: list[Any], kind: pa.DataType) -> Moments:
    """A column with some values."""
    arrow: Any = pa
    return moments_of(
        column, arrow.array(values, kind), job_ms=JOB_MS, latest_ms=LATEST_MS, level_ms=(5, 7)
    )


def sure(moments: Moments) -> list[int | None]:
    """The moments that need not be asked about."""
    pairs = zip(moments.deliver_ms.tolist(), moments.unsure.tolist(), strict=True)
    return [None if unsure else ms for ms, unsure in pairs]


def test_milliseconds() -> None:
    """Those between the job's moment and the latest one are sure."""
    asked = [1_000, 1_001, 100_000, 100_001, -1, None, 2**63 - 1]

    found = read("deliver_at", asked, pa.int64())

    assert [None, 1_001, 100_000, None, None, None, None] == sure(found)
    assert "TIMER_DELIVER_MS" == found.request
    assert ["-1", None] == [found.property_of(4), found.property_of(5)]


def test_delays() -> None:
    """They count from the job's moment, and never overflow."""
    found = read("delay_ms", [0, 1, 99_000, 99_001, -1, 2**63 - 1], pa.int64())

    assert [None, 1_001, 100_000, None, None, None] == sure(found)
    assert str(2**63 - 1) == found.property_of(5)


def test_levels() -> None:
    """Levels that the broker has are sure."""
    assert [1_005, 1_007, None, None, None] == sure(read("level", [1, 2, 3, 0, None], pa.int32()))


def test_timestamps_are_rounded_up() -> None:
    """A message is never due before the microsecond that was asked for."""
    found = read("deliver_at", [NOW_US + 1, NOW_US + 1_000], pa.timestamp("us", tz="UTC"))

    assert [1_001, 1_001] == sure(found)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2000", 2_000),
        ("1970-01-01T00:00:02Z", 2_000),
        ("1970-01-01 02:00:02.5+02:00", 2_500),
        ("1970-01-01T00:00:02.0001Z", 2_001),
        ("1970-01-01T00:00:02", None),
        ("1970-13-01T00:00:02Z", None),
        ("tomorrow", None),
        ("2e3", None),
        ("", None),
    ],
)
def test_texts(text: str, ms: int | None) -> None:
    """Digits and ISO 8601 with an offset are read; anything else goes to admission as it is."""
    found = read("deliver_at", [text, "1970-01-01T00:00:03Z"], pa.string())

    assert [ms, 3_000] == sure(found)
    if ms is None:
        assert text == found.property_of(0)


def test_texts_of_delays() -> None:
    """Only digits are a delay."""
    assert [1_007, None] == sure(read("delay_ms", ["7", "1970-01-01T00:00:02Z"], pa.string()))


def test_intervals() -> None:
    """Rounded up to milliseconds: what is negative or null is asked about."""
    found = read("delay", [7_000, 98_999_001, 0, 99_000_001, -1_000, None], pa.duration("us"))

    assert [1_007, 100_000, None, None, None, None] == sure(found)
    assert "TIMER_DELAY_MS" == found.request
    assert ["99001", "-1", None] == [found.property_of(row) for row in (3, 4, 5)]
