"""A report in a few numbers: what is printed, and what ``--json`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .drain_forecast import LateMinutes
from .report import Report

SHOWN = 20
"""Topics, and minutes of a forecast, that a summary has at most."""
LATE_MS = 1000
"""From here on a minute of a forecast is late: less is what the forecast cannot tell."""

Fields = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Summary:
    """All of it fits a screen; the whole is in the frames."""

    store: str
    begin_ms: int
    pending: Fields
    """count, bytes, topics, overdue, first_ms, last_ms (null when nothing is pending)."""
    levels_left: int
    """Messages in queues of RocketMQ's classic levels; ``pending`` counts those that still wait."""
    topics: Sequence[Fields]
    """The fullest: topic, count, bytes, overdue, first_ms, last_ms."""
    brokers: Sequence[Fields] | None = None
    """Of several stores: broker, count, bytes, overdue, first_ms, last_ms."""
    hot_slots: Sequence[Fields]
    """second_ms, due, topics (name to count)."""
    rate: Fields | None
    """per_second, full_seconds (null: it was given); null when nothing tells it."""
    forecast: Fields | None
    """late_minutes, worst (the latest: minute_ms, count, late_ms, peak_ms, waiting)."""
    rolls: Fields
    """count, first_ms, last_ms: the hours of the first and of the last of them."""
    delays: Sequence[Fields]
    """By topic: count, rolled, p50_ms, p90_ms, p99_ms, max_ms."""
    lateness: Fields | None
    """count, early, p50_ms, p90_ms, p99_ms, max_ms; null when nothing was delivered."""
    late_topics: Sequence[Fields]
    """The same by topic, the latest first."""
    late_hours: Sequence[Fields]
    """The same by hour, the latest first."""


def summary(found: Report, *, store: str, begin_ms: int) -> Summary:
    """Work a report out; where nothing did before, Spark reads the store now.

    The driver gets a row a topic and a row an hour.

    Args:
        found: The report.
        store: Its name for the reader.
        begin_ms: Where the forecast begins.
    """
    topics, late = _rows(found.topics), _rows(found.lateness)
    late.sort(key=lambda row: (-(row["p99_ms"] or 0), row["topic"] or "", row["hour_ms"] or 0))
    in_all = [row for row in late if row["topic"] is None and row["hour_ms"] is None]
    return Summary(
        store=store,
        begin_ms=begin_ms,
        pending=_pending(topics),
        levels_left=found.levels_left,
        topics=topics[:SHOWN],
        brokers=None if found.brokers is None else _rows(found.brokers),
        hot_slots=_hot_slots(_rows(found.hot_slots)),
        rate=None if found.rate is None else attrs.asdict(found.rate),
        forecast=None if found.forecast is None else _forecast(found.forecast),
        rolls=_rows(
            found.rolls.agg(
                F.coalesce(F.sum("count"), F.lit(0)).alias("count"),
                F.min("hour_ms").alias("first_ms"),
                F.max("hour_ms").alias("last_ms"),
            )
        )[0],
        delays=_rows(found.delays.limit(SHOWN)),
        lateness=_without(in_all[0], "topic", "hour_ms") if in_all and in_all[0]["count"] else None,
        late_topics=[_without(row, "hour_ms") for row in late if row["topic"] is not None][:SHOWN],
        late_hours=[_without(row, "topic") for row in late if row["hour_ms"] is not None][:SHOWN],
    )


def _pending(topics: Sequence[Fields]) -> Fields:
    return {
        "count": sum(row["count"] for row in topics),
        "bytes": sum(row["bytes"] for row in topics),
        "topics": len(topics),
        "overdue": sum(row["overdue"] for row in topics),
        "first_ms": min((row["first_ms"] for row in topics), default=None),
        "last_ms": max((row["last_ms"] for row in topics), default=None),
    }


def _hot_slots(rows: Sequence[Fields]) -> list[Fields]:
    slots: dict[int, dict[str, Any]] = {}
    for row in rows:
        topics: dict[str, int] = {}
        empty = {"second_ms": row["second_ms"], "due": row["due"], "topics": topics}
        slots.setdefault(row["second_ms"], empty)["topics"][row["topic"]] = row["count"]
    return list(slots.values())


def _forecast(minutes: LateMinutes) -> Fields:
    late = [row for row in minutes.rows() if row["late_ms"] >= LATE_MS]
    late.sort(key=lambda row: (-row["late_ms"], row["minute_ms"]))
    return {"late_minutes": len(late), "worst": late[:SHOWN]}


def _rows(frame: DataFrame) -> list[Fields]:
    return [row.asDict() for row in frame.collect()]


def _without(row: Fields, *names: str) -> Fields:
    return {name: value for name, value in row.items() if name not in names}
