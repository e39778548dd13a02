"""Hand messages of the far future, which wait in Parquet by due day, to the broker in time.

To be run from a timer, more often than the window is long. Each file is taken once, however often
this runs or dies; `timermq spark schedule --far` writes such files.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from timermq.pipeline.clock.clock import SystemClock

from ..arguments import OneLineParser, complete_directories, duration
from ..output import print_json
from .session import add_session_flags, session_for
from .sink_flags import add_sink_flags, job_row, sink_options, timed

if TYPE_CHECKING:
    from timermq.pipeline.spark.jobs.promote import Promoted

WINDOW_MS = 2 * 86_400_000
"""With the day at its end it is RocketMQ's default of the maximum delay."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and the window."""
    far = parser.add_argument(
        "--from", dest="directory", required=True, metavar="DIR", help="the far messages"
    )
    complete_directories(far)
    parser.add_argument(
        "--window",
        type=duration,
        default=WINDOW_MS,
        metavar="DURATION",
        help="files whose day begins within it are taken (default: 2d)",
    )
    add_sink_flags(parser)
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Promote; 1 when a file could not be."""
    with session_for(args, "promote") as spark:
        from timermq.pipeline.spark.jobs.promote import promote

        options = sink_options(args, "promote")
        done, seconds = timed(
            lambda: promote(
                spark,
                args.directory,
                options,
                window_ms=args.window,
                now_ms=SystemClock().now_ms(),
            )
        )
    for text in done.failed:
        print(f"timermq: spark promote: {text}", file=sys.stderr)
    print_promoted(done, seconds, as_json=args.json)
    late = any(report.refused_late for report in done.reports)
    return 1 if done.failed or late else 0


def print_promoted(done: Promoted, seconds: float, *, as_json: bool) -> None:
    """The results of the files: a line for people; for programs one a job, and a summary.

    Args:
        done: What the run has done.
        seconds: That it took.
        as_json: For programs.
    """
    scheduled = sum(report.adopted for report in done.reports)
    if not as_json:
        print(
            f"{done.files} files within the window: {done.before} promoted before, "
            f"{len(done.reports)} now ({scheduled} messages in {seconds:.1f} s), "
            f"{len(done.failed)} failed"
        )
        return
    jobs = (job_row(report, seconds=None, was_done=False) for report in done.reports)
    print_json({"row": "job", **job} for job in jobs)
    summary: dict[str, object] = {
        "row": "summary",
        "files": done.files,
        "before": done.before,
        "promoted": len(done.reports),
        "scheduled": scheduled,
        "failed": done.failed,
        "seconds": round(seconds, 3),
    }
    print_json([summary])
