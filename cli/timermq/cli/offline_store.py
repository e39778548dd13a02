"""A store looked at from outside: opened read only, whoever wrote it and whoever may be serving it.

Recovery runs in memory alone, so a store that was cut off shows what its next start would find.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import attrs
import shtab
import trio

from timermq.pipeline.clock import SystemClock
from timermq.pipeline.pending import PendingTimer, PendingTimers
from timermq.pipeline.quarantine import Quarantine
from timermq.pipeline.timer_counts import TimerCounts
from timermq.pipeline.timer_files import TimerFiles
from timermq.pipeline.timer_options import TimerOptions
from timermq.pipeline.timer_recovery import Recovered, recover
from timermq.timerstore.disk import Disk, File
from timermq.timerstore.index_layout import IndexHeader, read_header
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

from .config import warn_of_ignored
from .configuration import add_configuration_flags, load_configuration
from .store_sizes import measure


@attrs.frozen(kw_only=True)
class OfflineIndex:
    """One index file, open as long as it is looked at."""

    name: str
    file: File
    header: IndexHeader


@attrs.frozen(kw_only=True)
class OfflineStore:
    """The parts of an open store."""

    store: MessageStore
    timer_files: TimerFiles
    timer_options: TimerOptions
    timers: Recovered
    """Where the timer service would go on."""

    def pending(self) -> Iterator[PendingTimer]:
        """What the next start would deliver, in order of slots."""
        return PendingTimers(
            store=self.store,
            files=self.timer_files,
            options=self.timer_options,
            read_ms=self.timers.read_ms,
            queue_offset=self.timers.queue_offset,
            already_done=self.timers.already_done,
        ).rows()

    def quarantine(self) -> Quarantine:
        """What could not be delivered."""
        return Quarantine(self.store, TimerCounts(), self.timer_files.metrics)

    def index_files(self) -> Iterator[OfflineIndex]:
        """The index files, oldest first.

        Raises:
            StoreFormatError: One is not an index of these settings.
        """
        store = self.store
        directory = f"{store.root}/index"
        for name in store.disk.list_dir(directory):
            file = store.disk.open(f"{directory}/{name}", read_only=True)
            try:
                header = read_header(
                    file, store.options.max_hash_slot_num, store.options.max_index_num
                )
                yield OfflineIndex(name=name, file=file, header=header)
            finally:
                file.close()


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    """The directory, and how to name settings that its files do not tell."""
    directory = parser.add_argument("directory", metavar="DIR", help="the store's directory")
    directory.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    add_configuration_flags(parser)


def measured_options(
    args: argparse.Namespace, disk: Disk, root: str
) -> tuple[StoreOptions, TimerOptions]:
    """The configured options, with the sizes that the store's files have.

    Args:
        args: Of a parser with the configuration's flags.
        disk: Where the store is.
        root: Its directory.

    Raises:
        NoStoreError: There is none.
        ConfigurationError: A setting is unknown or refused.
    """
    configuration = load_configuration(args, {})
    warn_of_ignored(configuration)
    return measure(disk, root, configuration.store, configuration.timer, configuration.configured())


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
    now_ms = SystemClock().now_ms
    # The index is looked at file by file: a damaged one must not hide the rest.
    store_options = attrs.evolve(store_options, message_index_enable=False)
    store = MessageStore.open(
        disk, root, store_options, now_ms=now_ms, store_host=NO_HOST, read_only=True
    )
    try:
        files = TimerFiles.open(disk, root, timer_options, read_only=True)
        try:
            yield OfflineStore(
                store=store,
                timer_files=files,
                timer_options=timer_options,
                timers=recover(files, store, timer_options, now_ms()),
            )
        finally:
            files.close()
    finally:
        trio.run(store.aclose)
