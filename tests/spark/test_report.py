"""The report counts, forecasts and measures what is in the tables, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from timermq.pipeline.spark.histogram import bucket
from timermq.pipeline.spark.jobs.report import Report, names_frame, report_on
from timermq.pipeline.spark.jobs.report_pictures import drawable, pictures
from timermq.pipeline.spark.jobs.report_summary import Summary, summary
from timermq.pipeline.spark.topic_names import by_hash
from timermq.timerstore.java_hash import java_hash

NINE_MS = 1_700_006_400_000
"""A whole hour."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ORDERS, MAILS = java_hash("orders"), java_hash("mails")

PENDING = "deliver_ms long, slot_ms long, topic_hash int, size int"
UNITS = (
    "write_ms long, topic_hash int, slot_ms long, deliver_ms long, is_first boolean, "
    "is_roll boolean, is_delete boolean"
)
DELIVERED = "topic string, stored_ms long, deliver_ms long, lateness_ms long"

Row = tuple[Any, ...]


class Tables:
    """Tables of a few rows, and the report on them."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.pending: list[Row] = []
        self.units: list[Row] = []
        self.delivered: list[Row] = []

    def due(
        self, moment: int, topic: int = ORDERS, *, count: int = 1, slot_ms: int | None = None
    ) -> None:
        """Pending messages; an entry without a unit yet has no slot."""
        self.pending += [(moment, slot_ms, topic, 100)] * count

    def planned(
        self,
        slot_ms: int,
        moment: int | None,
        *,
        first: bool = True,
        roll: bool = False,
        delete: bool = False,
    ) -> None:
        """A unit of the timer log, written at nine."""
        is_first = None if moment is None else first
        self.units.append((NINE_MS, ORDERS, slot_ms, moment, is_first, roll, delete))

    def fired(self, moment: int, late_ms: int, topic: str = "orders", *, count: int = 1) -> None:
        """Messages of a topic were delivered, ``late_ms`` after their moment."""
        self.delivered += [(topic, moment + late_ms, moment, late_ms)] * count

    def report(self, begin_ms: int = NINE_MS, drain_rate: float | None = None) -> Report:
        """The report on the rows so far, from a moment on."""
        return report_on(
            self._frame(self.pending, PENDING),
            self._frame(self.units, UNITS),
            self._frame(self.delivered, DELIVERED),
            names=names_frame(self.spark, by_hash(["orders"])),
            precision_ms=1000,
            begin_ms=begin_ms,
            drain_rate=drain_rate,
        )

    def summary(self, begin_ms: int = NINE_MS, drain_rate: float | None = None) -> Summary:
        """The summary of the report on the rows so far."""
        found = self.report(begin_ms, drain_rate)
        short = summary(found, store="/store", begin_ms=begin_ms)
        found.release()
        return short

    def _frame(self, rows: list[Row], columns: str) -> DataFrame:
        # The overloads of createDataFrame name types of pandas, which is not installed.
        return self.spark.createDataFrame(rows, columns)  # pyright: ignore[reportUnknownMemberType]


@pytest.fixture
def tables(spark: SparkSession) -> Tables:
    """Tables that have no rows yet."""
    return Tables(spark)


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame in its order."""
    return [tuple(row) for row in frame.collect()]


def test_backlog(tables: Tables) -> None:
    """By minute, hour and topic; a topic without a name has its hash."""
    tables.due(NINE_MS - 1, count=2)
    tables.due(NINE_MS + 59_999, count=3)
    tables.due(NINE_MS + 60_000, MAILS)
    tables.due(NINE_MS + HOUR_MS, slot_ms=NINE_MS + HOUR_MS - 1000)

    found = tables.report()

    mails = f"hash {MAILS}"
    assert [
        (NINE_MS - 60_000, "orders", 2, 200),
        (NINE_MS, "orders", 3, 300),
        (NINE_MS + 60_000, mails, 1, 100),
        (NINE_MS + HOUR_MS, "orders", 1, 100),
    ] == rows(found.minutes)
    assert [
        (NINE_MS - HOUR_MS, "orders", 2, 200),
        (NINE_MS, mails, 1, 100),
        (NINE_MS, "orders", 3, 300),
        (NINE_MS + HOUR_MS, "orders", 1, 100),
    ] == rows(found.hours)
    assert [
        ("orders", 6, 600, 2, NINE_MS - 1, NINE_MS + HOUR_MS),
        (mails, 1, 100, 0, NINE_MS + 60_000, NINE_MS + 60_000),
    ] == rows(found.topics)
    found.release()


def test_hot_seconds_and_forecast(tables: Tables) -> None:
    """The fullest second stands first, with its topics; the forecast says how late it will be."""
    tables.due(NINE_MS + 5_000, count=30)
    tables.due(NINE_MS + 5_400, MAILS, count=12)
    tables.due(NINE_MS + 70_000, MAILS, count=2)

    short = tables.summary(drain_rate=10)

    assert [
        {
            "second_ms": NINE_MS + 5_000,
            "due": 42,
            "topics": {"orders": 30, f"hash {MAILS}": 12},
        },
        {"second_ms": NINE_MS + 70_000, "due": 2, "topics": {f"hash {MAILS}": 2}},
    ] == short.hot_slots
    assert {"per_second": 10, "full_seconds": None} == short.rate
    assert short.forecast is not None
    assert 1 == short.forecast["late_minutes"]
    (worst,) = short.forecast["worst"]
    # 42 less the four that are delivered until the last of them is due.
    assert (NINE_MS + 5_000, 3_800) == (worst["peak_ms"], worst["late_ms"])


def test_rate_of_seconds_in_which_messages_waited(tables: Tables) -> None:
    """A burst of 350, a hundred a second: three seconds were full, what came after was not."""
    for number in range(350):
        tables.fired(NINE_MS, number * 10)
    tables.fired(NINE_MS + 30_000, 3, count=5)

    assert {"per_second": 100, "full_seconds": 3} == tables.summary().rate


def test_a_broker_that_was_never_behind_tells_no_rate(tables: Tables) -> None:
    """Five messages a second say nothing of how many it could deliver; a late one neither."""
    tables.due(NINE_MS + 1)
    for second in range(10):
        tables.fired(NINE_MS + 1000 * second, 4, count=5)
    tables.fired(NINE_MS, 5_500)

    short = tables.summary()

    assert (None, None) == (short.rate, short.forecast)
    assert short.lateness is not None


def test_lateness_by_topic_and_hour(tables: Tables) -> None:
    """Percentiles of what was delivered; one that came early is counted."""
    for late_ms in range(100):
        tables.fired(NINE_MS, late_ms)
    tables.fired(NINE_MS + HOUR_MS, 40_000, "mails", count=4)
    tables.fired(NINE_MS + HOUR_MS, -2, "mails")

    short = tables.summary()

    assert short.lateness is not None
    assert (105, 1, 40_000) == tuple(short.lateness[name] for name in ("count", "early", "max_ms"))
    mails, orders = short.late_topics
    assert ("mails", 5, 1) == (mails["topic"], mails["count"], mails["early"])
    # Buckets are 1.6 % wide at this size; none is above the greatest value.
    assert 40_000 == mails["p50_ms"] == mails["p99_ms"]
    assert [("orders", 50, 90, 99, 99)] == [
        tuple(orders[name] for name in ("topic", "p50_ms", "p90_ms", "p99_ms", "max_ms"))
    ]
    assert [NINE_MS + HOUR_MS, NINE_MS] == [row["hour_ms"] for row in short.late_hours]


def test_planned_delays(tables: Tables) -> None:
    """A message counts once, by its first unit; deletes do not; of RocketMQ's each unit does."""
    tables.planned(NINE_MS + 9_000, NINE_MS + 10_000)
    tables.planned(NINE_MS + 9_000, NINE_MS + 10_000, delete=True)
    tables.planned(NINE_MS + DAY_MS, NINE_MS + DAY_MS + 1, roll=True)
    tables.planned(NINE_MS + 1000, NINE_MS + 2000, first=False)
    tables.planned(NINE_MS + 11_000, None)

    (row,) = tables.summary().delays

    assert ("orders", 3, 1, DAY_MS) == tuple(
        row[name] for name in ("topic", "count", "rolled", "max_ms")
    )
    assert 12_000 <= row["p50_ms"] <= 12_000 * (1 + 1 / 64)


def test_rolls(tables: Tables) -> None:
    """What waits in a slot on the way is due when asked for, and rolls when its slot comes."""
    tables.due(NINE_MS + 5 * DAY_MS, slot_ms=NINE_MS + DAY_MS, count=2)
    tables.due(NINE_MS + 5 * DAY_MS, slot_ms=NINE_MS + 2 * DAY_MS)
    tables.due(NINE_MS + 5 * DAY_MS, slot_ms=NINE_MS + 5 * DAY_MS - 1000)

    found = tables.report()

    assert [(NINE_MS + DAY_MS, "orders", 2), (NINE_MS + 2 * DAY_MS, "orders", 1)] == rows(
        found.rolls
    )
    assert [(NINE_MS + 5 * DAY_MS, 4, "orders", 4)] == rows(found.hot_slots)
    found.release()


def test_empty_tables(tables: Tables) -> None:
    """A store with nothing in it: nothing pending, nothing delivered, no pictures, and no error."""
    found = tables.report()
    short = summary(found, store="/store", begin_ms=NINE_MS)

    assert {
        "count": 0,
        "bytes": 0,
        "topics": 0,
        "overdue": 0,
        "first_ms": None,
        "last_ms": None,
    } == short.pending
    assert (None, None, None) == (short.lateness, short.rate, short.forecast)
    assert {"count": 0, "first_ms": None, "last_ms": None} == short.rolls
    assert {} == pictures(drawable(found, short), None)
    found.release()


def test_buckets(spark: SparkSession) -> None:
    """A bucket is named by its greatest value: never below what it holds, at most 1.6 % above."""
    values = [*range(300), *(2**power + by for power in range(7, 42) for by in (-1, 0, 1, 77))]
    frame = spark.createDataFrame([(value,) for value in [-5, *values]], "value long")  # pyright: ignore[reportUnknownMemberType] - as above

    found = rows(frame.select("value", bucket("value")))

    assert (-5, -1) == found[0]
    assert [] == [
        pair
        for pair in found[1:]
        if not pair[0] <= pair[1] <= pair[0] * (1 + 1 / 64)
        or (pair[0] < 128 and pair[0] != pair[1])
    ]
