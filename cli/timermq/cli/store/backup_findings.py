"""The findings about a backup, for ``store check``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trio

from timermq.pipeline.clock.clock import SystemClock
from timermq.repair.finding import Finding
from timermq.repair.store_check import CheckedStore
from timermq.timerstore.os_disk import OsDisk

from ..config import warn_of_ignored
from ..configuration import load_configuration
from .progress import show_progress

MANIFEST = "manifest"
"""The file that a backup has and a store has not."""


def is_backup(text: str) -> bool:
    """Whether a text names a backup: a URL, or a directory with a manifest and without a log."""
    place = Path(text)
    is_directory = (place / MANIFEST).is_file() and not (place / "commitlog").is_dir()
    return "://" in text or is_directory


def find_in_backup(args: argparse.Namespace) -> list[Finding]:
    """All that is wrong with the backup that ``args.directory`` names.

    Args:
        args: Of a parser with the configuration's flags.

    Raises:
        UsageError: It is in an object store, and the extra is not installed.
        StoreError: It cannot be read.
        ConfigurationError: A setting is unknown or refused.
    """
    from timermq.backup.backup_check import BackupCheck
    from timermq.backup.backup_objects import BackupObjects

    from ..backup_target import named_target

    disk = OsDisk()
    configuration = load_configuration(args, {})
    warn_of_ignored(configuration)

    async def find() -> list[Finding]:
        objects = await BackupObjects.load(named_target(args.directory, disk))
        settings = CheckedStore(
            disk=disk,
            root=args.directory,
            store_options=configuration.store,
            timer_options=configuration.timer,
            now_ms=SystemClock().now_ms(),
            progress=show_progress if sys.stderr.isatty() else None,
        )
        return await BackupCheck(objects=objects, settings=settings).run()

    return trio.run(find)
