"""A report of a store: its messages, when they fire, how late that will be, and how late it was.

Prints a summary; with --out also tables as Parquet, and pictures of the backlog, of the week ahead
and of the lateness as SVG. Times are those of this machine's zone, or of --zone.
"""

from __future__ import annotations

import argparse
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import attrs

from timermq.pipeline.clock.clock import SystemClock

from ..arguments import OneLineParser, moment, positive
from ..formatting import size, span
from ..moment import format_duration, format_moment
from ..output import console, print_json, visible
from .session import add_out, add_precision, add_session_flags, add_stores, session_for

if TYPE_CHECKING:
    from timermq.pipeline.spark.jobs.report_summary import Fields, Summary

NAMED = 3
"""Topics, and minutes, that a line names."""


def prepare_parser(parser: OneLineParser) -> None:
    """The store, the rate and the moment that a forecast needs."""
    add_stores(parser)
    parser.add_argument(
        "--drain-rate",
        metavar="N",
        type=positive,
        help="messages a second that the broker delivers (default: measured from the deliveries)",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="WHEN",
        type=moment,
        help="where the forecast begins; what is due before is due then (default: now)",
    )
    parser.add_argument(
        "--zone", type=zone, help="of times and pictures, such as Europe/Berlin (default: local)"
    )
    add_precision(parser)
    add_out(parser, "tables as Parquet, and pictures as SVG,")
    add_session_flags(parser)


def zone(text: str) -> tzinfo:
    """A time zone by its name."""
    if text == "UTC":
        return UTC  # also where the system has no table of zones
    try:
        return ZoneInfo(text)
    except (OSError, ValueError, LookupError):
        raise argparse.ArgumentTypeError(
            f"expected a zone such as UTC or Europe/Berlin, found {text!r}"
        ) from None


def run(args: argparse.Namespace) -> int:
    """Print the summary; with ``--out`` also write tables and pictures."""
    begin_ms = SystemClock().now_ms() if args.begin is None else args.begin
    drawn: dict[str, str] = {}
    with session_for(args, "report") as spark:
        from timermq.pipeline.spark.jobs.report import check_places, report, write_frames
        from timermq.pipeline.spark.jobs.report_pictures import drawable, pictures
        from timermq.pipeline.spark.jobs.report_summary import summary

        if args.out:
            check_places(args.out, store=args.store)  # refused before anything is read
        found = report(
            spark,
            args.store,
            begin_ms=begin_ms,
            drain_rate=args.drain_rate,
            timer_precision_ms=args.timer_precision_ms,
        )
        short = summary(found, store=", ".join(args.store), begin_ms=begin_ms)
        if args.out:
            write_frames(spark, found, args.out, store=args.store)
            drawn = pictures(drawable(found, short), args.zone)
    for name, picture in drawn.items():
        Path(args.out, f"{name}.svg").write_text(picture, encoding="utf-8")
    if args.json:
        print_json([attrs.asdict(short)])
        return 0
    for line in lines(short, args.zone):
        console().print(visible(line), markup=False, soft_wrap=True)
    if args.out:
        print(f"written    {args.out}: tables" + "".join(f", {name}.svg" for name in drawn))
    return 0


def lines(found: Summary, zone: tzinfo | None) -> list[str]:
    """The summary as people read it: a line a question.

    Args:
        found: What is to be told.
        zone: Of the times; None: the machine's.
    """
    titled = {
        "pending": _pending(found, zone),
        "brokers": ", ".join(f"{row['broker']} {row['count']:,}" for row in found.brokers or ()),
        "levels": _levels(found.levels_left),
        "topics": ", ".join(f"{row['topic']} {row['count']:,}" for row in found.topics[:NAMED])
        + _more(found.pending["topics"] - NAMED),
        "fullest": "; ".join(
            f"{format_moment(slot['second_ms'], zone)} {slot['due']:,} ({_shares(slot)})"
            for slot in found.hot_slots[:NAMED]
        ),
        "forecast": _forecast(found, zone),
        "rolls": _rolls(found.rolls, zone),
        "planned": "; ".join(map(_delay, found.delays[:NAMED])),
        "delivered": _delivered(found),
        "latest": "; ".join(
            f"{row['topic']} p99 {format_duration(row['p99_ms'])}"
            for row in found.late_topics[:NAMED]
        ),
    }
    return [f"{title:<10} {line}" for title, line in titled.items() if line]


def _levels(left: int) -> str:
    return (
        f"{left:,} messages stand in queues of classic levels; what waits is counted"
        if left
        else ""
    )


def _pending(found: Summary, zone: tzinfo | None) -> str:
    pending = found.pending
    if not pending["count"]:
        return "nothing"
    overdue = f", {pending['overdue']:,} of them overdue" if pending["overdue"] else ""
    return (
        f"{pending['count']:,} messages of {_count(pending['topics'], 'topic')}, "
        f"{size(pending['bytes'])}, "
        f"{format_moment(pending['first_ms'], zone)} to {format_moment(pending['last_ms'], zone)}"
        f"{overdue}"
    )


def _forecast(found: Summary, zone: tzinfo | None) -> str:
    rate, forecast = found.rate, found.forecast
    if rate is None or forecast is None:
        why = "messages never waited for a whole second" if found.lateness else "no deliveries"
        return f"none: {why}, so the rate of this broker is not known: give --drain-rate"
    if rate["full_seconds"] is None:
        source = "as given"
    else:
        source = f"the median of {_count(rate['full_seconds'], 'second')} in which messages waited"
    at = f"at {rate['per_second']:,.0f}/s, {source}: "
    if not forecast["late_minutes"]:
        return f"{at}nothing will be late by a second"
    worst = "; ".join(
        f"{format_moment(row['peak_ms'], zone)} will be {span(row['late_ms'])} late"
        for row in forecast["worst"][:NAMED]
    )
    left = forecast["late_minutes"] - NAMED
    return f"{at}{worst}" + (f", {_count(left, 'minute')} more" if left > 0 else "")


def _rolls(rolls: Fields, zone: tzinfo | None) -> str:
    if not rolls["count"]:
        return ""
    first, last = (format_moment(rolls[name], zone) for name in ("first_ms", "last_ms"))
    return f"{rolls['count']:,} messages are enqueued again, from {first} to {last}"


def _delay(row: Fields) -> str:
    rolled = f", {row['rolled']:,} at least as long" if row["rolled"] else ""
    return (
        f"{row['topic']} p50 {span(row['p50_ms'])}, p90 {span(row['p90_ms'])}, "
        f"p99 {span(row['p99_ms'])} ahead{rolled}"
    )


def _delivered(found: Summary) -> str:
    late = found.lateness
    if late is None:
        return "nothing"
    return (
        f"{late['count']:,} messages, {late['early']:,} early; late by p50 "
        f"{format_duration(late['p50_ms'])}, p90 {format_duration(late['p90_ms'])}, p99 "
        f"{format_duration(late['p99_ms'])}, at most {format_duration(late['max_ms'])}"
    )


def _shares(slot: Fields) -> str:
    topics: dict[str, Any] = slot["topics"]
    named = ", ".join(f"{name} {count:,}" for name, count in list(topics.items())[:NAMED])
    return named + _more(len(topics) - NAMED)


def _more(count: int) -> str:
    return f", {count:,} more" if count > 0 else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
