"""Audit a store: was everything delivered, once and on time, and do its files agree.

Every timer is compared with its unit and its delivery, every queue with the commit log. Exit code
1 when a rule is broken. docs/operations.md says what each rule means.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..arguments import OneLineParser, count
from ..output import print_json, print_table
from .session import add_out, add_precision, add_session_flags, add_stores, session_for

if TYPE_CHECKING:
    from timermq.pipeline.spark.jobs.audit import Audit

SHOWN_MAX = 20
"""Findings in the table; ``--json`` and ``--out`` have all."""
SHOWN_COLUMNS = ("rule", "topic", "unique_id", "phy_offset", "pos", "expected", "found")


def prepare_parser(parser: OneLineParser) -> None:
    """The store, what is judged, and where the findings go."""
    add_stores(parser)
    parser.add_argument(
        "--late-ms", type=count, metavar="X", help="a delivery is late beyond X milliseconds"
    )
    parser.add_argument(
        "--order",
        action="store_true",
        help="also look at the order of messages of one moment and queue",
    )
    parser.add_argument(
        "--no-bodies", action="store_true", help="do not compare bodies with their checksums"
    )
    add_precision(parser)
    add_out(parser, "the findings as Parquet")
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 when a rule is broken."""
    with session_for(args, "audit") as spark:
        from timermq.pipeline.spark.jobs.audit import audit
        from timermq.pipeline.spark.tables.written_table import write_mode, write_table

        if args.out:
            write_mode(args.out, store=args.store)  # refused before anything is read
        result = audit(
            spark,
            args.store,
            late_ms=args.late_ms,
            in_order=args.order,
            bodies=not args.no_bodies,
            timer_precision_ms=args.timer_precision_ms,
        )
        if args.out:
            write_table(result.findings, args.out, store=args.store)
        print_audit(result, as_json=args.json)
    return 0 if result.is_clean else 1


def print_audit(result: Audit, *, as_json: bool) -> None:
    """Findings, a row a rule, what became of the messages, and what cannot be known."""
    unasked = None if as_json else "not asked"
    rules: list[dict[str, object]] = [
        {
            "rule": rule.name,
            "promise": rule.promise_name,
            "broken": unasked if rule in result.unasked else broken,
            "means": rule.means,
        }
        for rule, broken in result.broken.items()
    ]
    if as_json:
        print_json({"row": "finding", **row.asDict()} for row in result.findings.toLocalIterator())
        print_json({"row": "rule", **rule} for rule in rules)
        print_json([{"row": "messages", **result.counts}])
        if len(result.by_broker) > 1:
            print_json(
                {"row": "broker", "broker": broker, **counts}
                for broker, counts in result.by_broker.items()
            )
        print_json({"row": "note", "text": note} for note in result.notes)
        return
    total = sum(result.broken.values())
    if total:
        rows = result.findings.orderBy("rule", "phy_offset", "pos").limit(SHOWN_MAX).collect()
        print_table([row.asDict() for row in rows], SHOWN_COLUMNS, title=f"{total} found")
        if total > SHOWN_MAX:
            print(f"… and {total - SHOWN_MAX} more: see --json or --out")
        print()
    print_table(rules, ("rule", "promise", "broken", "means"))
    print()
    print(_counted(result.counts))
    if len(result.by_broker) > 1:
        for broker, counts in result.by_broker.items():
            print(f"{broker}: {_counted(counts)}")
    for note in result.notes:
        print(note)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())
