"""Check a store: log, queues, index, timers and tables; every finding is one row."""

from __future__ import annotations

import argparse
import sys

import attrs

from .arguments import OneLineParser, add_json
from .findings import find_all
from .offline_store import add_store_arguments, open_offline
from .output import print_json, print_table

COLUMNS = ("place", "at", "expected", "found")


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 if there are any."""
    with open_offline(args, args.directory) as offline:
        for note in offline.store.recovery.notes:
            print(f"timermq: note: {note}", file=sys.stderr)
        rows = [attrs.asdict(finding) for finding in find_all(offline)]
    if args.json:
        print_json(rows)
    elif rows:
        print_table(rows, COLUMNS)
    else:
        print(f"{args.directory}: nothing found")
    return 1 if rows else 0
