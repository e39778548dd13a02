"""Keep delivered messages, or all, as Parquet by date and topic; run again, it goes on.

Every message is archived once, whatever dies in between, and a reader of the archive's manifest,
with Spark or without, sees it once. The store may be served.
"""

from __future__ import annotations

import argparse
from functools import partial

import attrs

from ..arguments import OneLineParser, complete_directories, positive
from ..output import print_json, print_table
from .session import add_session_flags, add_store, session_for

WHAT = ("delivered", "all")


def prepare_parser(parser: OneLineParser) -> None:
    """The store, the archive, and what goes into it."""
    add_store(parser)
    to = parser.add_argument(
        "--to", required=True, metavar="DIR", help="the archive's directory, or s3://BUCKET/PREFIX"
    )
    complete_directories(to)
    parser.add_argument(
        "--what", choices=WHAT, default=WHAT[0], help="which messages (default: delivered)"
    )
    parser.add_argument(
        "--internal", action="store_true", help="with all: the broker's own topics too"
    )
    parser.add_argument(
        "--follow",
        type=positive,
        metavar="SECONDS",
        help="go on for ever, with so long a pause whenever all is archived",
    )
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Archive once, or for ever with ``--follow``, and print what was archived."""
    with session_for(args, "archive") as spark:
        from timermq.pipeline.spark.jobs.archive import ArchiveReport, archive, follow

        def show(report: ArchiveReport) -> None:
            row = attrs.asdict(report)
            if args.json:
                print_json([row])
            else:
                print_table([row], list(row))

        one = partial(archive, spark, args.store, args.to, what=args.what, internal=args.internal)
        if args.follow is None:
            show(one())
            return 0
        for report in follow(one, args.follow):
            show(report)
    return 0
