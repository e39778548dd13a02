"""Rebuild timer log and wheel of a stopped store from its commit log.

Whatever was delivered, rolled or cancelled is left out. With `--install` the new files take the
places of the old ones in one step, and those are kept as a backup under `aside/<time>/`; with
`--out` they go to a directory of their own, to be looked at.
"""

from __future__ import annotations

import argparse

import attrs

from ..arguments import OneLineParser, complete_directories
from ..config import warn_of_ignored
from ..configuration import directory_flag, load_configuration
from ..output import print_json, print_table
from ..store_flags import add_configuration_flags
from .session import add_session_flags, add_store, session_for


def prepare_parser(parser: OneLineParser) -> None:
    """The store, where the new files go, and settings that the files do not tell."""
    add_store(parser, is_read=False)
    where = parser.add_mutually_exclusive_group(required=True)
    out = where.add_argument("--out", metavar="DIR", help="write the new files into this directory")
    complete_directories(out)
    where.add_argument(
        "--install", action="store_true", help="put them in the places of the store's own"
    )
    add_configuration_flags(parser)
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Rebuild, and say what waits."""
    configuration = load_configuration(args, directory_flag(args.store))
    warn_of_ignored(configuration)
    with session_for(args, "rebuild") as spark:
        from timermq.pipeline.spark.jobs.rebuild import rebuild

        report = rebuild(
            spark,
            args.store,
            out=args.out,
            install_files=args.install,
            options=(configuration.store, configuration.timer, tuple(configuration.configured())),
        )
    row = attrs.asdict(report)
    row |= row.pop("timers")
    if args.json:
        print_json([row])
    else:
        print_table([row], [name for name in row if row[name] is not None])
    return 0
