"""Make a store of a backup, in a directory that is empty or not there; `serve` then serves it.

The first start makes queues, index and timers from the log. With `--verify` they are made at once,
and the store is checked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import trio

from timermq.backup.backup_objects import BackupObjects
from timermq.backup.manifest import Manifest
from timermq.backup.restore import Restore
from timermq.backup.target import Target
from timermq.pipeline.clock.clock import SystemClock
from timermq.repair.store_repair import StoreRepair
from timermq.timerstore.os_disk import OsDisk

from .arguments import OneLineParser, complete_directories
from .backup_target import add_target, named_target
from .moment import format_moment
from .store.check import print_findings
from .store.progress import prepare_store, show_progress
from .store_flags import add_configuration_flags


def prepare_parser(parser: OneLineParser) -> None:
    """Which backup, where the store is to be, and whether to check it."""
    add_target(parser)
    directory = parser.add_argument("directory", metavar="DIR", help="where the store is to be")
    complete_directories(directory)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="make what follows from the log, and check the store; 1 if something is lost",
    )
    add_configuration_flags(parser)
    parser.set_defaults(json=False, notes=False)


def run(args: argparse.Namespace) -> int:
    """Restore, and check if that was asked for; 1 if the check finds a loss."""
    disk, root = OsDisk(), os.path.normpath(args.directory)
    shown = show_progress if sys.stderr.isatty() else None
    manifest = trio.run(_restore, named_target(args.target, disk), disk, root, shown)
    print(
        f"{root}: restored as of {format_moment(manifest.shipped_ms)}: the log from "
        f"{manifest.start} to {manifest.end}, {len(manifest.tables)} tables"
    )
    for text in _warnings(manifest):
        print(f"timermq: warning: {text}", file=sys.stderr)
    if not args.verify or not manifest.end:
        return 0
    store = prepare_store(args, root)
    report = trio.run(StoreRepair(store, SystemClock().now_ms).run)
    return print_findings(args, report.left)


def _warnings(manifest: Manifest) -> list[str]:
    found: list[str] = []
    if not manifest.is_complete:
        found.append("the first shipping had not ended: the newest messages are missing")
    if manifest.damaged:
        found.append(
            f"{manifest.damaged} bytes of the log were damaged when they were shipped: run "
            "`timermq store repair`"
        )
    return found


async def _restore(
    target: Target, disk: OsDisk, root: str, progress: Callable[[int, int], None] | None
) -> Manifest:
    objects = await BackupObjects.load(target)
    await Restore(objects=objects, disk=disk, root=root, progress=progress).run()
    return objects.manifest
