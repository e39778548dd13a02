"""The pictures of a report: backlog, week ahead, lateness.

Spark puts together what they need: some thousand numbers, however large the store. Drawing is plain
code, and gives the same bytes for the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F

from ..pictures import (
    BLUE,
    COLOURS,
    GREY,
    Axis,
    HeatRow,
    Layer,
    Series,
    even_ticks,
    heat_map,
    plot,
    short_number,
    stacked_bars,
    ticks_of_ten,
)
from .report import FORECAST_DAYS, Report
from .report_cells import DAY_MS, HOUR_MS, MINUTE_MS
from .report_summary import Summary

SPANS: Mapping[int, str] = {
    MINUTE_MS: "a minute",
    5 * MINUTE_MS: "5 minutes",
    15 * MINUTE_MS: "15 minutes",
    HOUR_MS: "an hour",
    3 * HOUR_MS: "3 hours",
    6 * HOUR_MS: "6 hours",
    DAY_MS: "a day",
}
"""The spans that a bar may stand for."""
BARS_MAX = 120
TICKS_MAX = 7
WEEK_DAYS = 7
OTHERS = "others"
"""The topics that have no colour of their own."""


@attrs.frozen(kw_only=True)
class Drawable:
    """The data of a report's pictures."""

    begin_ms: int
    last_ms: int | None
    """The last moment at which something fires; None: nothing does."""
    topics: list[str]
    """Those with a colour, the fullest first."""
    bars: dict[tuple[str, int], int]
    """Messages by topic and number of the bar."""
    week: dict[int, int]
    """Messages by minute of the week ahead, none before ``begin_ms``."""
    late: list[tuple[int, int]]
    """Buckets of lateness, ascending, and messages."""


def drawable(found: Report, short: Summary) -> Drawable:
    """Put together what is drawn.

    Args:
        found: The report.
        short: Its summary. What was due before it begins counts as due then.
    """
    begin_ms, last_ms = short.begin_ms, short.pending["last_ms"]
    end_ms = begin_ms + FORECAST_DAYS * DAY_MS
    if last_ms is not None:
        last_ms = min(int(last_ms), end_ms - 1)
    topics = [str(row["topic"]) for row in short.topics[: len(COLOURS)]]
    soon = found.minutes.where(F.col("minute_ms") < end_ms)
    bars = Bars(begin_ms, begin_ms if last_ms is None else last_ms)
    topic = F.when(F.col("topic").isin(topics), F.col("topic")).otherwise(OTHERS)
    stacked = soon.groupBy(topic.alias("topic"), bars.column().alias("bar")).agg(
        F.sum("count").alias("count")
    )
    minutes = (
        soon.where(F.col("minute_ms") < begin_ms + WEEK_DAYS * DAY_MS)
        .groupBy(F.greatest(F.col("minute_ms"), F.lit(begin_ms)).alias("minute_ms"))
        .agg(F.sum("count").alias("count"))
    )
    return Drawable(
        begin_ms=begin_ms,
        last_ms=last_ms,
        topics=topics,
        bars={(row["topic"], row["bar"]): int(row["count"]) for row in stacked.collect()},
        week={int(row["minute_ms"]): int(row["count"]) for row in minutes.collect()},
        late=[(int(row["late_ms"]), int(row["count"])) for row in found.late_buckets.collect()],
    )


def pictures(of: Drawable, zone: tzinfo | None) -> dict[str, str]:
    """Name to SVG; one that would be empty is left out.

    Args:
        of: What is drawn.
        zone: Of hours and days; None: the machine's.
    """
    drawn: dict[str, str] = {}
    if of.last_ms is not None and of.bars:
        bars = Bars(of.begin_ms, of.last_ms)
        drawn["backlog"] = backlog(bars, of.topics, of.bars, zone)
        drawn["week"] = week(of.week, of.begin_ms, zone)
    if of.late:
        drawn["lateness"] = lateness(of.late)
    return drawn


class Bars:
    """The spans that a picture of the backlog has: as fine as fits.

    Args:
        begin_ms: In the first one.
        last_ms: In the last one, if it is not before the first.
    """

    def __init__(self, begin_ms: int, last_ms: int) -> None:
        for span_ms in SPANS:
            first = begin_ms // span_ms
            count = max(last_ms // span_ms - first, 0) + 1
            self.span_ms, self.first_ms, self.count = span_ms, first * span_ms, count
            if count <= BARS_MAX:
                return

    def column(self) -> Column:
        """The number of the bar that a minute belongs to."""
        return F.expr(f"greatest(0, (minute_ms - {self.first_ms}L) div {self.span_ms}L)")

    def begin_of(self, number: int) -> int:
        """The first millisecond of a bar."""
        return self.first_ms + number * self.span_ms


def backlog(
    bars: Bars, top: Sequence[str], counts: Mapping[tuple[str, int], int], zone: tzinfo | None
) -> str:
    """The due messages, span by span, stacked by topic.

    Args:
        bars: The spans.
        top: Topics with a colour, the fullest first.
        counts: By topic and number of the bar.
        zone: Of the times.
    """
    totals = Counter[int]()
    for (_, number), count in counts.items():
        totals[number] += count
    names = [*top, *([OTHERS] if any(topic == OTHERS for topic, _ in counts) else [])]
    layers = [
        Layer(
            name=name,
            colour=colour,
            counts=[counts.get((name, number), 0) for number in range(bars.count)],
        )
        for name, colour in zip(names, (*COLOURS[: len(top)], GREY), strict=False)
    ]
    step = -(-bars.count // TICKS_MAX)
    ticks = range(0, bars.count, step)
    is_long = bars.count * bars.span_ms > DAY_MS
    form = "%Y-%m-%d" if bars.span_ms >= DAY_MS else "%m-%d %H:%M" if is_long else "%H:%M"
    high = even_ticks(max(totals.values()))
    first, last = local(bars.first_ms, zone), local(bars.begin_of(bars.count), zone)
    return stacked_bars(
        "What fires, by time and topic",
        Axis(
            label="due",
            low=0,
            high=bars.count,
            ticks=ticks,
            names=[local(bars.begin_of(number), zone).strftime(form) for number in ticks],
        ),
        Axis(
            label=f"messages in {SPANS[bars.span_ms]}",
            low=0,
            high=high[-1],
            ticks=high,
            names=[short_number(round(tick)) for tick in high],
        ),
        layers,
        [f"{local(bars.begin_of(number), zone):%Y-%m-%d %H:%M}" for number in range(bars.count)],
        f"{sum(totals.values()):,} messages, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} "
        f"({zone_name(first)})",
    )


def week(counts: Mapping[int, int], begin_ms: int, zone: tzinfo | None) -> str:
    """The due messages in each hour of the next days.

    Args:
        counts: By the minute, epoch milliseconds, none before ``begin_ms``.
        begin_ms: In the first day.
        zone: Of the hours and days.
    """
    hours = Counter[tuple[date, int]]()
    for minute_ms, count in counts.items():
        moment = local(minute_ms, zone)
        hours[moment.date(), moment.hour] += count
    begin = local(begin_ms, zone)
    days = [begin.date() + timedelta(days=number) for number in range(WEEK_DAYS)]
    return heat_map(
        "What fires in the week ahead, by day and hour",
        [f"{hour:02}" for hour in range(24)],
        [
            HeatRow(
                name=f"{day:%m-%d}",
                counts=[
                    None if (day, hour) < (begin.date(), begin.hour) else hours[day, hour]
                    for hour in range(24)
                ],
            )
            for day in days
        ],
        f"hour of the day ({zone_name(begin)})",
        f"{sum(hours[key] for key in hours if key[0] in days):,} messages from "
        f"{begin:%Y-%m-%d %H:%M} on",
    )


def lateness(buckets: Sequence[tuple[int, int]]) -> str:
    """How many messages were delivered within how much of their moment.

    Args:
        buckets: Milliseconds, ascending, and how many were as late; at least one.
    """
    total, within = sum(count for _, count in buckets), 0
    points: list[tuple[float, float]] = []
    for late_ms, count in buckets:
        points.append((late_ms, 100 * within / total))
        within += count
        points.append((late_ms, 100 * within / total))
    ticks = ticks_of_ten(1, 10 * max(buckets[-1][0], 1))
    return plot(
        "How late messages were delivered",
        Axis(
            label="milliseconds after the moment asked for",
            low=1,
            high=ticks[-1],
            ticks=ticks,
            logarithmic=True,
        ),
        Axis(label="% of the messages", low=0, high=100, ticks=range(0, 101, 20)),
        [Series(name="delivered within", colour=BLUE, points=points, dashes="")],
        f"{total:,} messages",
    )


def local(moment_ms: int, zone: tzinfo | None) -> datetime:
    """A moment in a zone; None: the machine's."""
    whole_seconds = moment_ms // 1000
    return datetime.fromtimestamp(whole_seconds, UTC).astimezone(zone)


def zone_name(moment: datetime) -> str:
    """How the zone is written beside times."""
    return f"UTC{moment.isoformat()[19:]}".replace("UTC+00:00", "UTC")
