"""Judge histories of producers and consumers: lost, early, twice, cancelled or not, in order.

Give all files of one run together, of all producers and of all members of a group: what is not in
them cannot be seen. `send`, `consume`, `cancel` and `reschedule` write one with `--history`.
"""

from __future__ import annotations

import argparse

from timermq.client.history import HistoryError, read_history
from timermq.simulator.rules.check import Report, check

from .arguments import OneLineParser, UsageError, add_json
from .output import print_json, print_table

BROKEN_COLUMNS = ("rule", "message_id", "expected", "found", "lines")
SHOWN_MAX = 100
"""Breaches in a table; `--json` prints all."""


def prepare_parser(parser: OneLineParser) -> None:
    """The history files, and whether other producers send to their topics."""
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument(
        "--others-send",
        action="store_true",
        help="producers without a history send to these topics as well",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print every breach and the ledger; 1 if there is a breach."""
    try:
        report = check(
            {name: read_history(name) for name in args.files}, others_send=args.others_send
        )
    except HistoryError as error:
        raise UsageError(f"check-history: {error}") from None
    if args.json:
        print_json({"row": "broken", **one.row()} for one in report.broken)
        print_json({"row": "rule", **one} for one in rule_rows(report))
        print_json([{"row": "ledger", **report.ledger}])
    else:
        print_report(report)
    return 0 if report.is_clean else 1


def rule_rows(report: Report) -> list[dict[str, object]]:
    """For each rule, how often it applied and how often it was broken."""
    return [
        {
            "rule": rule.name,
            "judged": judged,
            "broken": sum(one.rule is rule for one in report.broken),
            "promise": rule.value,
        }
        for rule, judged in report.judged.items()
    ]


def print_report(report: Report) -> None:
    """Print the breaches, at most `SHOWN_MAX`, then the rules and the ledger."""
    if report.broken:
        shown = [one.row() for one in report.broken[:SHOWN_MAX]]
        print_table(shown, BROKEN_COLUMNS, title=f"{len(report.broken)} broken")
        if len(report.broken) > SHOWN_MAX:
            print(f"… and {len(report.broken) - SHOWN_MAX} more: see --json")
        print()
    print_table(rule_rows(report), ("rule", "judged", "broken", "promise"))
    print()
    print(", ".join(f"{name} {count}" for name, count in report.ledger.items()))
