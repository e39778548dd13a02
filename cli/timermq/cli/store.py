"""Look into a store that nobody serves, of this program or of RocketMQ 5, and repair it."""

from __future__ import annotations

import argparse
from typing import cast

from . import store_check, store_dump, store_plan, store_repair, store_stats
from .arguments import OneLineParser, Verb, first_sentence

VERBS: dict[str, Verb] = {
    "stats": store_stats,
    "dump": store_dump,
    "check": store_check,
    "plan": store_plan,
    "repair": store_repair,
}


def prepare_parser(parser: OneLineParser) -> None:
    """The sub-verbs."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
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
    """Run the sub-verb."""
    return cast("Verb", args.sub_verb).run(args)
