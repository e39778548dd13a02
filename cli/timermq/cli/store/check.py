"""Check a store: log, queues, index, timers and tables; every finding is one row.

Nothing is written, and damage of one part hides no other. A backup is checked by the same rules, as
far as it has what they judge. Each finding names the rule and the
promise that are broken, the file and the byte in it, and what `store repair` would do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from timermq.repair.finding import Finding
from timermq.repair.store_check import is_damage

from ..arguments import OneLineParser, add_json
from ..output import print_json, print_table
from ..store_flags import add_store_arguments
from .backup_findings import find_in_backup, is_backup
from .progress import prepare_store

COLUMNS = ("rule", "promise", "file", "offset", "expected", "found", "count", "repair")


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser, what="the store's directory, or a backup's (or its URL)")
    parser.add_argument(
        "--notes", action="store_true", help="also what is worth knowing and no damage"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 if there are any."""
    if is_backup(args.directory):
        return print_findings(args, find_in_backup(args))
    findings = list(prepare_store(args, args.directory).find())
    return print_findings(args, findings)


def print_findings(args: argparse.Namespace, findings: Iterable[Finding]) -> int:
    """Print findings as a check does; 1 if one is more than a note."""
    found = list(findings)
    damage = [finding for finding in found if is_damage(finding)]
    if args.json:
        print_json(finding.row() for finding in found)
        return 1 if damage else 0
    shown = found if args.notes else damage
    if shown:
        print_table([finding.row() for finding in shown], COLUMNS)
    if not damage:
        print(f"{args.directory}: nothing found")
    hidden = len(found) - len(shown)
    if hidden and damage:
        print(f"timermq: {hidden} notes more: --notes shows them", file=sys.stderr)
    return 1 if damage else 0
