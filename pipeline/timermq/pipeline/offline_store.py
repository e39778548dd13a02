"""A store looked at from outside: opened read only, of any writer, served or stopped.

Recovery runs in memory alone, so a store that was cut off shows what its next start would find.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import attrs
import trio

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.disk import Disk, File
from timermq.timerstore.index_layout import IndexHeader, read_header
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.moved_key import first_key, has_unique_key
from timermq.timerstore.record import record_properties, record_topic
from timermq.timerstore.store_options import StoreOptions

from .cancel.delete_forms import DeleteForms, delete_forms
from .cancel.pending_listing import PendingTimer, PendingTimers
from .clock.clock import SystemClock
from .levels.level_outlook import level_outlooks
from .quarantine.quarantine import Quarantine
from .recovery.timer_files import TimerFiles
from .recovery.timer_recovery import Recovered, recover
from .state.timer_counts import TimerCounts
from .state.timer_options import TimerOptions


@attrs.frozen(kw_only=True)
class OfflineIndex:
    """One index file, open as long as it is looked at."""

    name: str
    file: File
    header: IndexHeader


@attrs.frozen
class FoundRecords:
    """The records of a log with one unique key, for a caller that asks topic by topic."""

    commit_log: CommitLog
    places: tuple[tuple[int, int], ...]
    """Position and size of each, in the order of the log."""

    def newest_first(self, topic: str, key: str, *, unique: bool) -> Iterator[tuple[int, bytes]]:
        """As of an index; but only that one unique key leads to anything."""
        for phy_offset, size in reversed(self.places):
            record = self.commit_log.record_at(phy_offset, size)
            if record is None or record_topic(record) != topic.encode():
                continue
            if unique and has_unique_key(record_properties(record), key.encode()):
                yield phy_offset, record


@attrs.frozen(kw_only=True)
class OfflineStore:
    """The parts of an open store."""

    store: MessageStore
    timer_files: TimerFiles
    timer_options: TimerOptions
    timers: Recovered
    """The positions at which the timer service would go on."""

    unreadable: set[int] = attrs.field(factory=set[int], init=False)
    """Positions of waiting records that a listing could not show, as far as it has read."""

    def pending(self) -> Iterator[PendingTimer]:
        """The messages that the next start would deliver, in order of slots."""
        return PendingTimers(
            store=self.store,
            files=self.timer_files,
            options=self.timer_options,
            read_ms=self.timers.read_ms,
            queue_offset=self.timers.queue_offset,
            already_done=self.timers.already_done,
            unreadable=self.unreadable,
        ).rows()

    def delete_forms(self) -> DeleteForms:
        """The deletes that wait, by the versions of RocketMQ that honour them."""
        precision_ms = self.timer_options.timer_precision_ms
        return delete_forms(self.store, self.timer_files, self.timers, precision_ms)

    def pending_levels(self) -> Iterator[PendingTimer]:
        """Messages that RocketMQ left in queues of classic levels; the next start adopts them."""
        for one in level_outlooks(self.store, self.timer_options):
            row = one.pending()
            if row is not None:
                yield row
            elif one.fault is not None:
                self.unreadable.add(one.phy_offset)

    def differing_sectors(self) -> int:
        """Sectors that are not as they were written: of the timer log, and of what was read.

        Of what was read of the commit log, that is; a record in one of them is left out.
        """
        checkpoint, scrub = self.timer_files.checkpoint, self.timer_files.timer_log.scrub
        count = len(self.store.commit_log.old.damaged)
        at, end = scrub.start, min(scrub.end, checkpoint.last_timer_log_flush_pos)
        while checkpoint.extension is not None and at < end:
            found = scrub.step(at, end)
            at, count = found.at, count + found.damaged
        return count

    def quarantine(self) -> Quarantine:
        """The messages that could not be delivered."""
        precision_ms = self.timer_options.timer_precision_ms
        return Quarantine(self.store, TimerCounts(), self.timer_files.metrics, precision_ms)

    def find(self, unique_key: str) -> FoundRecords:
        """Look the log through for a message: some microseconds a record, whatever the index is."""
        log, wanted = self.store.commit_log, first_key(unique_key.encode())
        return FoundRecords(
            log,
            tuple(
                (phy_offset, len(record))
                for phy_offset, record in LogReading(log, log.min_offset, purpose="a message")
                if wanted in record
            ),
        )

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


@contextmanager
def open_offline(
    disk: Disk, root: str, store_options: StoreOptions, timer_options: TimerOptions
) -> Generator[OfflineStore]:
    """Open the store in a directory; it is closed when the block ends.

    Args:
        disk: Its disk.
        root: Its directory.
        store_options: With the sizes that its files have (``store_sizes.measure``).
        timer_options: The same.

    Raises:
        StoreError: It is damaged, or its files do not fit the settings.
    """
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
