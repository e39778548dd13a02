"""Show the configuration: every setting, its value, and where the value comes from."""

from __future__ import annotations

import argparse
import enum
import sys

import attrs

from .arguments import OneLineParser, add_json
from .configuration import Configuration, load_configuration
from .output import print_json, print_table
from .store_flags import add_configuration_flags


def prepare_parser(parser: OneLineParser) -> None:
    """The sub-verb ``show`` and its flags."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    show = verbs.add_parser(
        "show",
        help="every setting with its value and source",
        description=__doc__,
        formatter_class=parser.formatter_class,
    )
    add_configuration_flags(show)
    add_json(show)


def run(args: argparse.Namespace) -> int:
    """Print one row a setting."""
    configuration = load_configuration(args, {})
    warn_of_ignored(configuration)
    rows = [
        {**attrs.asdict(one), "value": _plain(one.value), "source": one.source.value}
        for one in configuration.settings
    ]
    if args.json:
        print_json(rows)
    else:
        print_table(rows, ("section", "key", "value", "source", "where"))
    return 0


def warn_of_ignored(configuration: Configuration) -> None:
    """Say on standard error which keys of a broker.conf have no meaning here."""
    if configuration.ignored:
        names = ", ".join(configuration.ignored)
        print(f"timermq: warning: broker.conf: not known here: {names}", file=sys.stderr)


def _plain(value: object) -> object:
    return value.name if isinstance(value, enum.Enum) else value
