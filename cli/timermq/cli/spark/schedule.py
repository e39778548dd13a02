"""Schedule the rows of Parquet, CSV or JSON files, or of a query over them, each exactly once.

Columns: topic, body, one of deliver_at, delay (an interval), delay_ms and level, and optionally
key, tag, properties; in CSV, properties.NAME for a property each. What has run before under the
same name, or with the same content, is not scheduled again.
"""

from __future__ import annotations

import argparse

import attrs

from ..arguments import OneLineParser, UsageError, complete_directories, complete_files, duration
from .session import add_session_flags, session_for
from .sink_flags import add_job, add_sink_flags, job_row, print_job, sink_options, timed

FORMATS = ("parquet", "csv", "json")
INPUT = "input"
"""The view that the files are in a query."""


def prepare_parser(parser: OneLineParser) -> None:
    """The files, and what of them."""
    files = parser.add_argument("input", nargs="*", metavar="FILE", help="a file, or a directory")
    complete_files(files)
    parser.add_argument("--format", choices=FORMATS, help="of the files (default: by their names)")
    parser.add_argument(
        "--view",
        action="append",
        default=[],
        type=view,
        metavar="NAME=FILE",
        help="another table for --sql; may be repeated",
    )
    parser.add_argument(
        "--sql", metavar="QUERY", help=f"schedule its rows; the files are the view {INPUT}"
    )
    far = parser.add_argument(
        "--far", metavar="DIR", help="write what is due beyond --window there, for promote"
    )
    complete_directories(far)
    parser.add_argument(
        "--window",
        type=duration,
        metavar="DURATION",
        help="such as 2d, no more than the broker takes; with --far",
    )
    add_job(parser, "the content of the files and the query")
    add_sink_flags(parser)
    add_session_flags(parser)


def view(text: str) -> tuple[str, str]:
    """A view by its name, and its file."""
    name, mark, path = text.partition("=")
    if not (mark and path and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, found {text!r}")
    return name, path


def run(args: argparse.Namespace) -> int:
    """Schedule; 1 when the broker has refused rows that the sink had let in."""
    if not args.input and not (args.sql and args.view):
        raise UsageError("spark schedule: expected files, or --sql with --view, found none")
    if args.view and not args.sql:
        raise UsageError("spark schedule: argument --view: expected with --sql")
    if (args.far is None) != (args.window is None):
        raise UsageError("spark schedule: expected --far and --window together, found one of them")
    views = dict(args.view)
    with session_for(args, "schedule") as spark:
        from timermq.pipeline.spark.jobs.schedule import (
            content_name,
            fitted,
            one_line,
            read_input,
            schedule,
        )
        from timermq.pipeline.spark.sink.job_report import was_handed_over

        said = {"sql": args.sql, "views": sorted(views), "window": args.window}
        job = args.job or content_name("schedule", [*args.input, *views.values()], said)
        options = attrs.evolve(
            sink_options(args, job), far=args.far, window_ms=args.window, wait=not args.no_wait
        )
        was_done = was_handed_over(options)
        if args.input:
            frame = read_input(spark, args.input, args.format)
            frame.createOrReplaceTempView(INPUT)
        for name, path in views.items():
            read_input(spark, [path]).createOrReplaceTempView(name)
        with one_line():
            rows = fitted(spark.sql(args.sql or f"select * from {INPUT}"))  # noqa: S608 - a constant
        report, seconds = timed(lambda: schedule(rows, options))
    print_job(job_row(report, seconds=seconds, was_done=was_done), as_json=args.json)
    return 1 if report.refused_late else 0
