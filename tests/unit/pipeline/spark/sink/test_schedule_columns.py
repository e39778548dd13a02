"""Columns of a DataFrame for the sink."""

from __future__ import annotations

import pyarrow as pa
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.sink.schedule_columns import ScheduleColumns

LEAST = {"topic": "string", "body": "binary", "deliver_at": "bigint"}


def test_columns() -> None:
    """What is there, by Spark's names of types."""
    more = {"key": "string", "properties": "map<string,string>"}

    least = ScheduleColumns.of(LEAST.items())
    full = ScheduleColumns.of({**LEAST, **more}.items())

    assert ("deliver_at", False, False, False) == (
        least.moment,
        least.has_key,
        least.has_tag,
        least.has_properties,
    )
    assert (True, False, True) == (full.has_key, full.has_tag, full.has_properties)
    assert {
        "topic": pa.string(),
        "body": pa.binary(),
        "deliver_at": pa.int64(),
        "key": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
    } == full.kinds


@pytest.mark.parametrize("fields", ["day to second", "hour", "minute to second"])
def test_intervals(fields: str) -> None:
    """Of whatever fields, but for months: they have no length."""
    found = {"topic": "string", "body": "binary", "delay": f"interval {fields}"}

    assert "delay" == ScheduleColumns.of(found.items()).moment


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"when": "bigint"}, "column when: expected one of topic, body, deliver_at, "),
        ({"topic": None}, "column topic: expected string, found no such column"),
        ({"body": None}, "column body: expected binary, found no such column"),
        ({"body": "int"}, "column body: expected binary or string, found int"),
        (
            {"deliver_at": "double"},
            "column deliver_at: expected long or timestamp or string, found double",
        ),
        (
            {"deliver_at": "timestamp_ntz"},
            "column deliver_at: expected long or timestamp or string, found timestamp_ntz",
        ),
        (
            {"properties": "map<string,int>"},
            "column properties: expected map<string,string>, found map<string,int>",
        ),
        (
            {"deliver_at": None, "delay": "interval year to month"},
            "column delay: expected interval day to second, found interval year to month",
        ),
        (
            {"deliver_at": None},
            "columns deliver_at, delay, delay_ms, level: expected one of them, found none",
        ),
        (
            {"level": "int"},
            "columns deliver_at, delay, delay_ms, level: expected one of them, found "
            "deliver_at and level",
        ),
    ],
)
def test_refused_columns(change: dict[str, str | None], text: str) -> None:
    """The error names the column."""
    found = {name: kind for name, kind in {**LEAST, **change}.items() if kind is not None}

    with pytest.raises(SparkJobError) as raised:
        ScheduleColumns.of(found.items())

    assert str(raised.value).startswith(f"timermq.schedule: {text}")


def test_a_column_twice() -> None:
    """Which of the two would count?"""
    with pytest.raises(SparkJobError, match="column topic: expected it once, found it twice"):
        ScheduleColumns.of([*LEAST.items(), ("topic", "string")])
