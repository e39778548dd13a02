"""The store that a command line names, opened read only with the settings that it names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator
from contextlib import contextmanager

from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.pipeline import offline_store
from timermq.pipeline.offline_store import OfflineStore
from timermq.pipeline.recovery.store_sizes import measure
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.config_file import load_json
from timermq.timerstore.disk import Disk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

from .config import warn_of_ignored
from .configuration import directory_flag, load_configuration


def measured_options(
    args: argparse.Namespace, disk: Disk, root: str
) -> tuple[StoreOptions, TimerOptions]:
    """The configured options, with the sizes that the store's files have.

    Args:
        args: Of a parser with the configuration's flags.
        disk: The disk of the store.
        root: Its directory.

    Raises:
        NoStoreError: There is none.
        ConfigurationError: A setting is unknown or refused.
    """
    configuration = load_configuration(args, directory_flag(root))
    warn_of_ignored(configuration)
    return measure(disk, root, configuration.store, configuration.timer, configuration.configured())


def consumer_offsets(store: MessageStore) -> ConsumerOffsetTable:
    """The consumer offsets of a stopped broker; empty where it has no such file.

    Raises:
        StoreError: The file cannot be read.
        ConfigTableError: Or is no such table.
    """
    table = ConsumerOffsetTable(now_ms=lambda: 0, version_step=1)
    data = load_json(store.disk, f"{store.root}/{table.path}")
    if data is not None:
        table.load(data)
    return table


@contextmanager
def open_offline(args: argparse.Namespace, directory: str) -> Generator[OfflineStore]:
    """Open the store in a directory; it is closed when the block ends.

    Args:
        args: Of a parser with the configuration's flags.
        directory: The store's.

    Raises:
        NoStoreError: There is none.
        StoreError: It is damaged, or its files do not fit the settings.
        ConfigurationError: A setting is unknown or refused.
    """
    disk, root = OsDisk(), os.path.normpath(directory)
    store_options, timer_options = measured_options(args, disk, root)
    with offline_store.open_offline(disk, root, store_options, timer_options) as offline:
        yield offline
