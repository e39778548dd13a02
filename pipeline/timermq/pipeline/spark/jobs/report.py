"""The report of a store: messages, when they fire, how late that will be, and how late it was."""

# pyright: reportUnknownMemberType=false
# The overloads of createDataFrame name types of pandas, which is not installed.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import SparkJobError
from ..histogram import spread
from ..moment_text import Moment, moment_ms
from ..named_stores import named_stores
from ..options import Stores
from ..store_view import StoreView
from ..tables.declaration import BROKER
from ..tables.registration import read_table
from ..tables.written_table import write_mode, write_table
from ..topic_names import UNKNOWN, topic_names
from .drain_forecast import DrainRate, DueSeconds, LateMinutes, by_minute, lateness, measured_rate
from .report_cells import (
    DAY_MS,
    DELIVERED_COLUMNS,
    HOUR_MS,
    MINUTE_MS,
    PENDING_COLUMNS,
    UNIT_COLUMNS,
    delivered_cells,
    due_cells,
    floored,
    planned_cells,
)

FORECAST_DAYS = 31
"""How far a forecast looks: 2.7 million seconds, 65 MB on the driver."""
HOT_SECONDS = 20
"""The fullest seconds that are shown."""


@attrs.frozen(kw_only=True)
class Report:
    """The frames of a report; all of them small."""

    minutes: DataFrame
    """minute_ms, topic, count, bytes: what is due."""
    hours: DataFrame
    """hour_ms, topic, count, bytes."""
    topics: DataFrame
    """topic, count, bytes, overdue, first_ms, last_ms."""
    brokers: DataFrame | None
    """broker, count, bytes, overdue, first_ms, last_ms; None of one store."""
    hot_slots: DataFrame
    """second_ms, due (in all), topic, count: the fullest seconds."""
    rolls: DataFrame
    """hour_ms, topic, count: messages that are enqueued again then, for their next leg."""
    delays: DataFrame
    """topic, count, rolled, p50_ms, p90_ms, p99_ms, max_ms: from the send to the moment asked for.

    Of the messages whose first unit the timer log still holds. One that rolls counts with its first
    leg: it is at least as long.
    """
    lateness: DataFrame
    """topic, hour_ms (of the moment asked for), count, early, p50_ms, p90_ms, p99_ms, max_ms.

    Null for all topics, all hours.
    """
    late_buckets: DataFrame
    """late_ms, count: how many were how late, as buckets."""
    rate: DrainRate | None
    """None: nothing tells it, so there is no forecast."""
    forecast: LateMinutes | None
    levels_left: int
    """Messages in queues of classic levels; those that still wait are among what is due."""
    cells: Sequence[DataFrame]
    """The cached frames behind all these."""

    def release(self) -> None:
        """Let Spark forget what it keeps; the frames would be made from the files again."""
        for frame in self.cells:
            frame.unpersist()


FRAMES: Mapping[str, Callable[[Report], DataFrame]] = {
    "backlog": lambda found: found.minutes,
    "backlog_by_hour": lambda found: found.hours,
    "backlog_by_topic": lambda found: found.topics,
    "hot_slots": lambda found: found.hot_slots,
    "rolls": lambda found: found.rolls,
    "delays": lambda found: found.delays,
    "lateness": lambda found: found.lateness,
}
"""The tables that are always written."""
FORECAST = "forecast"
"""That which is written where the rate is known."""
BROKERS = "backlog_by_broker"
"""That which is written of several stores."""


def report(
    spark: SparkSession,
    store: Stores,
    *,
    begin_ms: Moment,
    drain_rate: float | None = None,
    timer_precision_ms: int | None = None,
) -> Report:
    """Look at a store, or at several whose brokers count as one.

    Args:
        spark: A session that the tables are registered in.
        store: The directory, as driver and executors see it, or several: as of ``read_table``.
        begin_ms: Where the forecast begins, in any form of ``Moment``; what is due before is due
            then.
        drain_rate: Messages a second; None: measured from what was delivered.
        timer_precision_ms: Of the wheel, where RocketMQ was set to another one than a second.

    Raises:
        StoreError: There is no store, or it is damaged.
        SparkJobError: Slots have several widths.
    """
    stores = named_stores(store)
    views = [one.view(timer_precision_ms) for one in stores]
    read = partial(
        read_table,
        spark,
        store=[one.pattern for one in stores],
        timer_precision_ms=timer_precision_ms,
    )
    whose = f",{BROKER.name}" if len(stores) > 1 else ""
    return report_on(
        read("timermq.pending", columns=PENDING_COLUMNS + whose),
        read("timermq.timerlog", columns=UNIT_COLUMNS),
        read("timermq.delivered", columns=DELIVERED_COLUMNS),
        names=names_frame(spark, topic_names(*(view.root for view in views))),
        precision_ms=one_precision(views),
        begin_ms=moment_ms(begin_ms, "report: begin_ms"),
        drain_rate=drain_rate,
        levels_left=sum(view.levels_left for view in views),
    )


def one_precision(views: Sequence[StoreView]) -> int:
    """The width of the slots of all stores, in milliseconds.

    Raises:
        SparkJobError: They differ.
    """
    widths = {view.root: view.timer_options.timer_precision_ms for view in views}
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{width} ms in {root}" for root, width in widths.items())
        raise SparkJobError(
            f"report: expected slots of one width, found {found}: report on each store alone"
        )
    return next(iter(widths.values()))


def report_on(
    pending: DataFrame,
    units: DataFrame,
    delivered: DataFrame,
    *,
    names: DataFrame,
    precision_ms: int,
    begin_ms: int,
    drain_rate: float | None = None,
    levels_left: int = 0,
) -> Report:
    """Report on tables, wherever they are from; each is read once.

    Args:
        pending: With ``PENDING_COLUMNS``.
        units: The timer log, with ``UNIT_COLUMNS``.
        delivered: With ``DELIVERED_COLUMNS``.
        names: Of topics: topic_hash, topic.
        precision_ms: Width of a slot.
        begin_ms: See ``report``.
        drain_rate: See ``report``.
        levels_left: See ``Report``.
    """
    due = due_cells(pending, precision_ms).persist()
    planned = planned_cells(units, precision_ms).persist()
    fired = delivered_cells(delivered).persist()
    if drain_rate is None:
        rate = measured_rate(fired)
    else:
        rate = DrainRate(per_second=drain_rate, full_seconds=None)
    minutes = backlog(due, "minute_ms", MINUTE_MS)
    return Report(
        minutes=named(minutes, names).orderBy("minute_ms", "topic"),
        hours=named(backlog(minutes, "hour_ms", HOUR_MS), names).orderBy("hour_ms", "topic"),
        topics=named(backlog_of("topic_hash", due, begin_ms), names).orderBy(
            F.desc("count"), "topic"
        ),
        brokers=None
        if BROKER.name not in due.columns
        else backlog_of(BROKER.name, due, begin_ms).orderBy(F.desc("count"), BROKER.name),
        hot_slots=named(hot_slots(due), names).orderBy(
            F.desc("due"), "second_ms", F.desc("count"), "topic"
        ),
        rolls=named(rolls(due), names).orderBy("hour_ms", "topic"),
        delays=named(delays(planned), names).orderBy(F.desc("count"), "topic"),
        lateness=lateness_of(fired).orderBy("topic", "hour_ms"),
        late_buckets=fired.groupBy("late_ms").agg(F.sum("count").alias("count")).orderBy("late_ms"),
        rate=rate,
        forecast=None if rate is None else forecast(due, begin_ms, rate),
        levels_left=levels_left,
        cells=(due, planned, fired),
    )


def write_frames(spark: SparkSession, found: Report, out: str, *, store: Stores) -> list[str]:
    """Write a report as Parquet: backlog.parquet and so on, in place of older ones.

    Args:
        spark: The session that it was made in.
        found: The report.
        out: A directory, as driver and executors see it.
        store: The store, or several, which no table may go to.

    Returns:
        The names, without ``.parquet``.

    Raises:
        SparkJobError: A table's place is somebody else's; nothing is written.
    """
    frames = {name: frame_of(found) for name, frame_of in FRAMES.items()}
    if found.brokers is not None:
        frames[BROKERS] = found.brokers
    if found.forecast is not None:
        frames[FORECAST] = spark.createDataFrame(pa.table(found.forecast.columns()))
    check_places(out, store=store)
    for name, frame in frames.items():
        write_table(frame.coalesce(1), f"{out}/{name}.parquet", store=store)
    return list(frames)


def check_places(out: str, *, store: Stores) -> None:
    """Whether the tables of a report may be written: before it is made, and before the first one.

    Raises:
        SparkJobError: As of ``write_frames``.
    """
    for name in (*FRAMES, FORECAST, BROKERS):
        write_mode(f"{out}/{name}.parquet", store=store)


def backlog(cells: DataFrame, name: str, span_ms: int) -> DataFrame:
    """The due messages by topic and span.

    Args:
        cells: With second_ms or minute_ms.
        name: Of the column for the span's beginning.
        span_ms: A multiple of that of the cells.
    """
    finer = "second_ms" if "second_ms" in cells.columns else "minute_ms"
    return cells.groupBy(floored(finer, span_ms).alias(name), "topic_hash").agg(
        F.sum("count").alias("count"), F.sum("bytes").alias("bytes")
    )


def backlog_of(name: str, cells: DataFrame, begin_ms: int) -> DataFrame:
    """The due messages by topic or broker, how many before a moment, and from when to when."""
    return cells.groupBy(name).agg(
        F.sum("count").alias("count"),
        F.sum("bytes").alias("bytes"),
        F.expr(f"sum(if(last_ms < {begin_ms}, count, 0))").alias("overdue"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
    )


def hot_slots(cells: DataFrame) -> DataFrame:
    """The fullest seconds, of equals the soonest, and how many messages of each topic they have."""
    fullest = (
        cells.groupBy("second_ms")
        .agg(F.sum("count").alias("due"))
        .orderBy(F.desc("due"), "second_ms")
        .limit(HOT_SECONDS)
    )
    return (
        cells.join(F.broadcast(fullest), "second_ms")
        .groupBy("second_ms", "due", "topic_hash")
        .agg(F.sum("count").alias("count"))
    )


def rolls(cells: DataFrame) -> DataFrame:
    """How many messages are enqueued again, by hour and topic."""
    return (
        cells.where("rolls_ms is not null")
        .groupBy(F.col("rolls_ms").alias("hour_ms"), "topic_hash")
        .agg(F.sum("count").alias("count"))
    )


def delays(cells: DataFrame) -> DataFrame:
    """How far ahead messages are sent, by topic."""
    return cells.groupBy("topic_hash").agg(
        F.sum("count").alias("count"),
        F.expr("sum(if(is_roll, count, 0))").alias("rolled"),
        *spread("delay_ms", "count", "most_ms"),
    )


def lateness_of(cells: DataFrame) -> DataFrame:
    """How late messages were: in all, by topic, and by hour."""
    topic, hour = F.col("topic"), F.col("hour_ms")
    return cells.groupingSets([[], [topic], [hour]], topic, hour).agg(
        F.sum("count").alias("count"),
        F.expr("sum(if(late_ms < 0, count, 0))").alias("early"),
        *spread("late_ms", "count", "most_ms"),
    )


def forecast(cells: DataFrame, begin_ms: int, rate: DrainRate) -> LateMinutes:
    """How late what is due within ``FORECAST_DAYS`` will be.

    Args:
        cells: What is due.
        begin_ms: Where it begins.
        rate: Of the broker.
    """
    seconds = (
        cells.where(F.col("second_ms") < begin_ms + FORECAST_DAYS * DAY_MS)
        .groupBy("second_ms")
        .agg(
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            F.sum("count").alias("count"),
        )
        .orderBy("second_ms")
        .toArrow()
    )
    due = DueSeconds(
        **{
            field: seconds.column(name).to_numpy().astype(np.int64)
            for field, name in (
                ("first_ms", "first_ms"),
                ("last_ms", "last_ms"),
                ("counts", "count"),
            )
        }
    ).from_moment(begin_ms)
    return by_minute(due, lateness(due, rate.per_second))


def names_frame(spark: SparkSession, names: Mapping[int, str]) -> DataFrame:
    """Names of topics as a frame: topic_hash, topic."""
    return spark.createDataFrame(list(names.items()), "topic_hash int, topic string")


def named(frame: DataFrame, names: DataFrame) -> DataFrame:
    """A frame with names in place of hashes."""
    unknown = F.format_string(UNKNOWN, F.col("topic_hash"))
    topic = F.coalesce(F.col("topic"), unknown).alias("topic")
    columns = [topic if name == "topic_hash" else F.col(name) for name in frame.columns]
    return frame.join(F.broadcast(names), "topic_hash", "left").select(*columns)
