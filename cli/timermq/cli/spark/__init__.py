"""Jobs on a store with Spark: what will fire, whether all was delivered, bulk scheduling."""

from __future__ import annotations

import argparse
from typing import cast

from ..arguments import OneLineParser, Verb, first_sentence
from . import archive, audit, promote, rebuild, replay, report, schedule, table

VERBS: dict[str, Verb] = {
    "archive": archive,
    "audit": audit,
    "rebuild": rebuild,
    "report": report,
    "table": table,
    "schedule": schedule,
    "replay": replay,
    "promote": promote,
}


def prepare_parser(parser: OneLineParser) -> None:
    """The jobs."""
    verbs = parser.add_subparsers(metavar="JOB", required=True)
    for name, verb in VERBS.items():
        text = verb.__doc__ or ""
        one = verbs.add_parser(
            name,
            help=first_sentence(text),
            description=text,
            formatter_class=parser.formatter_class,
        )
        verb.prepare_parser(one)
        one.set_defaults(sub_verb=verb)


def run(args: argparse.Namespace) -> int:
    """Run the job."""
    return cast("Verb", args.sub_verb).run(args)
