"""Schedule a time range of an archive once more, moved in time; distances stay.

The archive is Parquet as `timermq spark archive` writes it.
"""

from __future__ import annotations

import argparse

import attrs
import shtab

from ..arguments import OneLineParser, UsageError, duration, moment
from .session import add_session_flags, session_for
from .sink_flags import add_job, add_sink_flags, job_row, print_job, sink_options, timed


def prepare_parser(parser: OneLineParser) -> None:
    """The archive, the range, and where it goes."""
    archive = parser.add_argument("archive", metavar="DIR")
    archive.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
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
    add_job(parser, "the archive's name, the range and the shift")
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
        from timermq.pipeline.spark.jobs.replay import replay_name, replayed
        from timermq.pipeline.spark.jobs.schedule import one_line, schedule
        from timermq.pipeline.spark.sink.job_report import was_handed_over

        job = args.job or replay_name(
            args.archive, args.begin, args.to, shift_ms, topics=args.topic
        )
        options = attrs.evolve(sink_options(args, job), wait=not args.no_wait)
        was_done = was_handed_over(options)
        with one_line():
            archive = spark.read.parquet(args.archive)
        rows = replayed(
            archive, from_ms=args.begin, to_ms=args.to, shift_ms=shift_ms, topics=args.topic
        )
        report, seconds = timed(lambda: schedule(rows, options))
    print_job(job_row(report, seconds=seconds, was_done=was_done), as_json=args.json)
    return 1 if report.refused_late else 0
