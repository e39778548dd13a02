"""A store to be checked or repaired: its settings, and how far the walk over it is."""

from __future__ import annotations

import argparse
import os
import sys

from timermq.pipeline.clock.clock import SystemClock
from timermq.repair.store_check import CheckedStore
from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk, is_locked

from ..offline_store import measured_options


def prepare_store(args: argparse.Namespace, directory: str) -> CheckedStore:
    """The store in a directory; no file is opened but to learn its sizes.

    Args:
        args: Of a parser with the configuration's flags.
        directory: The store's.

    Raises:
        NoStoreError: There is none.
        StoreLockedError: A broker serves it: what it has begun to write looks like damage.
        ConfigurationError: A setting is unknown or refused.
    """
    disk, root = OsDisk(), os.path.normpath(directory)
    if is_locked(f"{root}/lock"):
        raise StoreLockedError(f"{root}: expected a stopped store, found that a broker serves it")
    store_options, timer_options = measured_options(args, disk, root)
    return CheckedStore(
        disk=disk,
        root=root,
        store_options=store_options,
        timer_options=timer_options,
        now_ms=SystemClock().now_ms(),
        progress=show_progress if sys.stderr.isatty() else None,
    )


def show_progress(done: int, total: int) -> None:
    """Say on one line of the terminal how much of the commit log is looked at, in MiB."""
    sys.stderr.write(f"\rcommit log: {done >> 20} of {total >> 20} MiB\x1b[K\r")
    sys.stderr.flush()
