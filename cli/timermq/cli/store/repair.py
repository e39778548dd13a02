"""Repair a stopped store: what is damaged is put right or made again, the originals are kept.

Without damage nothing is touched. A file has a backup before it is changed, under `aside/<time>/`
in the store's directory. A repair that was interrupted is run again.
"""

from __future__ import annotations

import argparse
import sys

import trio

from timermq.pipeline.clock.clock import SystemClock
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import RepairReport, StoreRepair

from ..arguments import OneLineParser, add_json
from ..output import print_json, print_table
from ..store_flags import add_store_arguments
from .check import COLUMNS, print_findings
from .progress import prepare_store


def prepare_parser(parser: OneLineParser) -> None:
    """The directory, whether to write, and how to print."""
    add_store_arguments(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be done: `store check`"
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="TARGET",
        help="put damaged records of the log back as this backup has them, before the repair",
    )
    add_json(parser)
    parser.set_defaults(notes=False)


def run(args: argparse.Namespace) -> int:
    """Repair; 1 if something is left that a repair should have repaired."""
    store = prepare_store(args, args.directory)
    if args.dry_run:
        return print_findings(args, store.find())
    if args.source is not None:
        _put_back(args.source, store)
    report = trio.run(StoreRepair(store, SystemClock().now_ms).run)
    if args.json:
        print_json(finding.row() for finding in report.findings)
        print_json([_summary(report)])
    else:
        _print_report(args.directory, report)
    return 0 if report.is_repaired else 1


def _put_back(source: str, store: CheckedStore) -> None:
    """Put back what a backup has of what the log has lost, and say what."""
    from timermq.backup.backup_log import BackupLog
    from timermq.backup.backup_objects import BackupObjects
    from timermq.repair.source_repair import PutBack, SourceRepair

    from ..backup_target import named_target

    async def put_back() -> list[PutBack]:
        objects = await BackupObjects.load(named_target(source, store.disk))
        return await SourceRepair(source=BackupLog(objects), store=store).run()

    for one in trio.run(put_back):
        text = f"commit log: {one.size} bytes at {one.position} put back from {source}"
        print(text, file=sys.stderr)


def _summary(report: RepairReport) -> dict[str, object]:
    return {
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
