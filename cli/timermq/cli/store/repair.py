"""Repair a stopped store: what is damaged is put right or made again, the originals are kept.

Without damage nothing is touched. A file has a backup before it is changed, under `aside/<time>/`
in the store's directory. A repair that was interrupted is run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from timermq.pipeline.clock.clock import SystemClock
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import RepairReport, StoreRepair

from ..arguments import OneLineParser, add_json
from ..output import print_json, print_table
from ..store_flags import add_store_arguments
from .check import COLUMNS, print_findings
from .progress import prepare_store

if TYPE_CHECKING:
    from timermq.repair.source_repair import PutBack


def prepare_parser(parser: OneLineParser) -> None:
    """The directory, whether to write, and how to print."""
    add_store_arguments(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be done: `store check`"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="COPY",
        help="put damaged records of the log back, before the repair, as this backup (a directory "
        "or URL) or replica (HOST:PORT, where clients reach it) has them",
    )
    add_json(parser)
    parser.set_defaults(notes=False)


def run(args: argparse.Namespace) -> int:
    """Repair; 1 if something is left that a repair should have repaired."""
    store = prepare_store(args, args.directory)
    if args.dry_run:
        return print_findings(args, store.find())
    put_back = [] if args.source is None else _put_back(args, store)
    report = trio.run(StoreRepair(store, SystemClock().now_ms).run)
    if args.json:
        print_json(finding.row() for finding in report.findings)
        print_json([_summary(report, put_back)])
    else:
        _print_report(args.directory, report)
    return 0 if report.is_repaired else 1


def _put_back(args: argparse.Namespace, store: CheckedStore) -> list[PutBack]:
    """Put back what another copy has of what the log has lost, and say what."""
    from timermq.repair.source_repair import SourceRepair

    from .log_copy import opened_copy

    async def put_back() -> list[PutBack]:
        async with opened_copy(args, store.disk) as source:
            return await SourceRepair(source=source, store=store).run()

    found = trio.run(put_back)
    for one in found:
        text = f"commit log: {one.size} bytes at {one.position} put back from {args.source}"
        print(text, file=sys.stderr)
    return found


def _summary(report: RepairReport, put_back: Sequence[PutBack]) -> dict[str, object]:
    return {
        "put_back": [{"position": one.position, "size": one.size} for one in put_back],
        "findings": len(report.findings),
        "left": [finding.row() for finding in report.left],
        "backup": report.backup if report.kept else None,
        "kept": list(report.kept),
    }


def _print_report(directory: str, report: RepairReport) -> None:
    if not report.findings:
        print(f"{directory}: nothing to repair")
        return
    print_table([finding.row() for finding in report.findings], COLUMNS)
    if report.kept:
        print(f"originals of {len(report.kept)} files: {directory}/{report.backup}")
    for finding in report.left:
        print(
            f"timermq: left: {finding.rule.name}: {finding.file}: at {finding.offset}: "
            f"expected {finding.expected}, found {finding.found}",
            file=sys.stderr,
        )
