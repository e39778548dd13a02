"""Schedule a time range of an archive once more, moved in time; distances stay.

The archive is Parquet as `timermq spark archive` writes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ..arguments import OneLineParser, UsageError, complete_directories, duration, moment
from ..output import print_json
from .session import add_session_flags, session_for
from .sink_flags import add_job, add_sink_flags, job_row, print_job, sink_options, timed

if TYPE_CHECKING:
    from timermq.pipeline.spark.jobs.replay import Replayed


def prepare_parser(parser: OneLineParser) -> None:
    """The archive, the range, and where it goes."""
    archive = parser.add_argument("archive", metavar="DIR")
    complete_directories(archive)
    parser.add_argument(
        "--from", dest="begin", type=moment, required=True, metavar="WHEN", help="first moment"
    )
    parser.add_argument(
        "--to", type=moment, required=True, metavar="WHEN", help="the moment behind the last one"
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="T", help="only this; may be repeated"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--shift", type=duration, metavar="DURATION", help="later by so much")
    where.add_argument(
        "--start-at", type=moment, metavar="WHEN", help="where the range is to begin"
    )
    add_job(parser, "the content of each batch of the archive, the range and the shift")
    add_sink_flags(parser)
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Replay; 1 when the broker has refused rows that the sink had let in."""
    if args.to <= args.begin:
        raise UsageError("spark replay: argument --to: expected a moment behind --from")
    if args.start_at is not None and args.job is None:
        raise UsageError(
            "spark replay: argument --start-at: expected with --job: said as 'in 5m' it is another "
            "moment in every run"
        )
    shift_ms = args.shift if args.start_at is None else args.start_at - args.begin
    with session_for(args, "replay") as spark:
        from timermq.pipeline.spark.jobs.replay import Replay, Replayed, replay, replayed, rows_of
        from timermq.pipeline.spark.jobs.schedule import schedule
        from timermq.pipeline.spark.sink.job_report import was_handed_over

        what = Replay(
            from_ms=args.begin, to_ms=args.to, shift_ms=shift_ms, topics=frozenset(args.topic)
        )
        options = attrs.evolve(sink_options(args, args.job or "replay"), wait=not args.no_wait)
        if args.job is None:
            done, seconds = timed(lambda: replay(spark, args.archive, what, options))
        else:
            was_done = was_handed_over(options)
            archive = rows_of(spark, args.archive)
            report, seconds = timed(lambda: schedule(replayed(archive, what), options))
            done = [Replayed(report, was_done)]
    rows = [job_row(one.report, seconds=seconds, was_done=one.was_done) for one in done]
    if args.job is not None:
        print_job(rows[0], as_json=args.json)
    elif args.json:
        print_json(rows)
    else:
        print(summary(done, seconds))
    return 1 if any(one.report.refused_late for one in done) else 0


def summary(done: Sequence[Replayed], seconds: float) -> str:
    """The results of all batches, for people.

    Args:
        done: The jobs.
        seconds: That they took.
    """
    reports = [one.report for one in done if not one.was_done]
    scheduled = sum(report.adopted for report in reports)
    refused = sum(sum(report.refused.values()) for report in reports)
    return (
        f"{len(done)} batches in the range: {len(done) - len(reports)} replayed before, "
        f"{len(reports)} now ({scheduled} messages in {seconds:.1f} s, {refused} refused)"
    )
