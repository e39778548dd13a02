"""The maintenance of a store while it is served: syncs, checkpoint, index, cleaning.

Each of four tasks sleeps until there is something to do, then lets it gather for its interval:

===============  =====================================================================  ============
task             does                                                                   every
===============  =====================================================================  ============
flush_log        syncs the log; with SYNC_FLUSH at once                                 500 ms
flush_queues     syncs log and queues, writes the checkpoint                            1 s
follow_index     indexes new records in slices; syncs the index now and then            200 ms, 10 s
                 (sooner when a mebibyte has gathered)
clean            removes old segments, measures the disk, has old bytes compared again  10 s
===============  =====================================================================  ============

An idle store does nothing but measure its disk. A failed sync ends all of them.

Corresponds to FlushRealTimeService, FlushConsumeQueueService and the scheduled tasks of
DefaultMessageStore.
"""

import contextlib
from collections.abc import Awaitable, Callable

import trio

from .cleaning import Cleaner
from .commit_log import CommitLog
from .consume_queue_table import ConsumeQueueTable
from .disk import Disk, is_for_a_while
from .dispatch import Dispatcher
from .errors import StoreFailedError
from .group_commit import GroupCommit
from .index_follower import IndexFollower
from .pins import Pins
from .queue_register import QueueRegister
from .store_checkpoint import StoreCheckpoint
from .store_lock import StoreLock
from .store_options import StoreOptions

INDEX_INTERVAL_MS = 200
"""Time in which records gather for the index, whose hashing works on many at once."""
INDEX_GATHERED = 1 << 20
"""Bytes of the log that are enough of them: what gathers further may have to be read again
(``FRESH_COUNT_MAX``), and a bulk job waits for the index."""

CHANGES_WITHIN = 300.0
"""Seconds at most until a changed interval of cleaning holds."""

INDEX_CLOSE_TIMEOUT = 5.0
"""Seconds at closing for bringing the index up to date; the rest follows when the store is
opened."""


class StoreMaintenance:
    """The background of one store.

    Args:
        disk: The disk of the store.
        options: Intervals.
        log: The log.
        queues: Its queues.
        dispatcher: What may still wait for the queues.
        commit: The one way to sync the log.
        index: Its index, if it has one.
        cleaner: What may go.
        checkpoint: Open for writing.
        last_store_ms: Store time of the newest message.
        pins: What its owners need of the log.
    """

    def __init__(
        self,
        disk: Disk,
        options: StoreOptions,
        *,
        log: CommitLog,
        queues: ConsumeQueueTable,
        dispatcher: Dispatcher,
        commit: GroupCommit,
        index: IndexFollower | None,
        cleaner: Cleaner,
        checkpoint: StoreCheckpoint,
        last_store_ms: Callable[[], int],
        pins: Pins,
        is_checkpointed: bool,
    ) -> None:
        self._disk = disk
        self._options = options
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._commit = commit
        self._index = index
        self._cleaner = cleaner
        self._checkpoint = checkpoint
        self._last_store_ms = last_store_ms
        self._pins = pins
        self._checkpointed_to = log.max_offset if is_checkpointed else -1
        """End of the log that the checkpoint on the disk speaks of."""
        self._appended = trio.lowlevel.ParkingLot()
        self._gathering = trio.lowlevel.ParkingLot()
        """The parking lot in which follow_index waits for more records."""
        self.confirmed_to = 0
        """Records before it are on another replica, too; the checkpoint says so."""
        self.confirm_offset: Callable[[], int] | None = None
        """Says up to where queues may be complete: what other replicas have; None, and in a copy:
        the own log's end."""
        self.files_lock = trio.Lock()
        """Held while files of queues and index are synced or removed: never both at once."""

    def follow(self) -> None:
        """Records were appended: bring them to the queues, and tell the tasks."""
        self.try_dispatch()
        if self._appended:
            self._appended.unpark_all()
        if self._gathering and self._has_gathered():
            self._gathering.unpark_all()

    async def wait_appended(self) -> None:
        """Wait until something is appended."""
        await self._appended.park()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled.

        Raises:
            StoreFailedError: A sync failed.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._raise_failure, name="raise_failure")
            for name, task in (
                ("flush_log", self._flush_log_regularly),
                ("flush_queues", self._flush_queues_regularly),
                ("follow_index", self._follow_index),
                ("clean", self._clean_regularly),
            ):
                nursery.start_soon(self._until_failure, task, name=name)
            task_status.started()

    async def flush(self) -> None:
        """Make everything appended so far durable: the log, then the queues.

        Raises:
            StoreFailedError: A sync failed, now or before.
        """
        await self._flush_log()
        await self._sync(self._queues.flush)

    async def flush_noted(self) -> None:
        """Flush, and note it in the checkpoint, unless all is noted.

        Raises:
            StoreFailedError: A sync failed, now or before.
        """
        is_noted = self._checkpointed_to >= self._log.max_offset
        await (self.flush() if is_noted else self.flush_checkpoint())

    async def flush_checkpoint(self) -> None:
        """Flush, then note in the checkpoint how far everything is durable.

        Raises:
            StoreFailedError: A sync failed, now or before.
        """
        end, store_ms = self._log.max_offset, self._last_store_ms()
        await self._flush_log()
        await self._sync(self._log.flush_seals)
        # Asked before the queues are synced: a unit that could not be written until now may come
        # while they are, and is not durable then.
        is_dispatched = self._dispatcher.dispatched_to >= end
        await self._sync(self._queues.flush)
        self._checkpoint.physic_msg_timestamp = store_ms
        confirmed_to = max(self._checkpoint.confirm_phy_offset, self.confirmed_to)
        self._checkpoint.confirm_phy_offset = min(confirmed_to, end)
        if is_dispatched and end >= (self._checkpoint.durable_py or 0):
            # Not so when another task has noted more meanwhile.
            self._checkpoint.logics_msg_timestamp = store_ms
            self._checkpoint.durable_py = end
        await self._sync(self._flush_checkpoint_page)
        if is_dispatched:
            self._checkpointed_to = max(end, self._checkpointed_to)

    async def clean(self) -> int:
        """Remove segments that may and should go; the count of log segments removed.

        What its owners need no longer may be known by records alone that are not durable yet: a
        power cut would take those, and the segment would be missed. So all is synced first, and
        what the checkpoint on the disk has not passed stays.

        Raises:
            StoreFailedError: The disk was not measured or a file not removed, or something failed
                before.
        """
        log = self._log
        # What is not yet synced and dispatched is still needed, whatever its age.
        pins = self._pins.needed()
        pinned_from = min(log.flushed_where, self._dispatcher.dispatched_to, *pins.values())
        if pinned_from - log.min_offset >= log.segment_size:
            if log.flushed_where < log.max_offset or self._checkpointed_to < pinned_from:
                await self.flush_checkpoint()
            pinned_from = min(pinned_from, self._checkpointed_to)
        async with self.files_lock:
            self._commit.check()
            try:
                removed = await self._cleaner.clean(pinned_from, self._pins.release)
                self._pins.tell_holder(pins, pinned_from if self._cleaner.is_held else None)
                return removed
            except OSError as error:
                self._fail_unless_full(error)
        self._commit.check()
        return 0

    async def close(self, register: QueueRegister, lock: StoreLock) -> None:
        """Make everything durable, and if all queues are complete note that the end was clean.

        Raises:
            StoreFailedError: A sync failed, now or before.
        """
        if self._index is not None:
            with trio.move_on_after(INDEX_CLOSE_TIMEOUT):
                await self._index_new_records(self._index)
            await self._flush_index(self._index)
        await self.flush_checkpoint()
        log = self._log
        if self._dispatcher.dispatched_to == log.max_offset:
            try:
                register.save(self._queues, log_start=log.min_offset, log_end=log.max_offset)
            except OSError as error:
                # Without room the old register stays: it says less, but nothing wrong.
                self._fail_unless_full(error)
            self._commit.check()
            try:
                lock.mark_clean()
            except OSError as error:
                self._commit.fail(error)
            self._commit.check()

    async def change_files(self, work: Callable[[], None]) -> None:
        """Do some work that removes files and syncs that they are gone, while none is synced.

        Raises:
            OSError: The disk is full.
            StoreFailedError: The work failed for another reason, or something before it.
        """
        async with self.files_lock:
            self._commit.check()
            try:
                work()
            except OSError as error:
                if is_for_a_while(error):
                    raise
                self._commit.fail(error)
            except StoreFailedError as error:
                self._commit.fail(error)
        self._commit.check()

    def try_dispatch(self) -> None:
        """Bring to the queues what may be readable and is not there, unless the store failed."""
        if self._commit.failure is not None:
            return
        is_sync = self._options.is_sync_flush
        limit = self._log.flushed_where if is_sync else self._log.max_offset
        if self.confirm_offset is not None and not self._cleaner.is_copy:
            limit = min(limit, self.confirm_offset())
        try:
            self._dispatcher.advance(limit)
        except StoreFailedError as error:
            self._commit.fail(error)

    # -- tasks --------------------------------------------------------------------------------

    async def _raise_failure(self) -> None:
        await self._commit.failed.wait()
        self._commit.check()

    async def _until_failure(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task; when the store fails it ends in silence, for `_raise_failure` tells."""
        with contextlib.suppress(StoreFailedError):
            await task()

    async def _flush_log_regularly(self) -> None:
        while True:
            while self._log.flushed_where >= self._log.max_offset:
                await self._appended.park()
            # With SYNC_FLUSH queues show only what is synced, and no caller waits for the sync of a
            # message that the store's owner puts itself, such as a timer that is due.
            if not self._options.is_sync_flush:
                await trio.sleep(self._options.flush_interval_commit_log_ms / 1000)
            await self._flush_log()

    async def _flush_queues_regularly(self) -> None:
        while True:
            while self._checkpointed_to >= self._log.max_offset:
                await self._appended.park()
            await trio.sleep(self._options.flush_interval_consume_queue_ms / 1000)
            await self.flush_checkpoint()

    async def _flush_log(self) -> None:
        await self._commit.flush(self._log.max_offset)
        self.try_dispatch()

    async def _flush_checkpoint_page(self) -> None:
        try:
            self._checkpoint.write()
        except OSError as error:
            # No room for the page. The old one stays, and recovery would read more of the log.
            self._fail_unless_full(error)
            return
        await self._disk.sync(self._checkpoint.file)

    async def _follow_index(self) -> None:
        index = self._index
        if index is None:
            return
        flush_time = trio.current_time() + self._options.index_flush_interval_ms / 1000
        while True:
            while not index.is_behind:
                await self._appended.park()
            if not self._has_gathered():
                with trio.move_on_after(INDEX_INTERVAL_MS / 1000):
                    await self._gathering.park()
            if not await self._index_new_records(index):
                await trio.sleep(INDEX_INTERVAL_MS / 1000)
            if trio.current_time() >= flush_time:
                await self._flush_index(index)
                flush_time = trio.current_time() + self._options.index_flush_interval_ms / 1000

    def _has_gathered(self) -> bool:
        """Whether so much is not indexed yet that it is time."""
        index = self._index
        return index is not None and self._log.max_offset - index.position >= INDEX_GATHERED

    async def _index_new_records(self, index: IndexFollower) -> bool:
        """Bring the index up to date; False without room for it.

        The messages are safe then; it is retried next time.
        """
        while index.is_behind:
            try:
                index.index_slice()
            except OSError as error:
                self._fail_unless_full(error)
                return False
            await trio.lowlevel.checkpoint()
        return True

    async def _flush_index(self, index: IndexFollower) -> None:
        # The index must not tell of records that a power cut takes from the log.
        await self._commit.flush(self._log.max_offset)
        await self._sync(index.flush)
        self._checkpoint.index_msg_timestamp = index.flushed_ms

    async def _clean_regularly(self) -> None:
        cleaned = trio.current_time()
        while True:
            left = self._clean_due(cleaned) - trio.current_time()
            await trio.sleep(min(max(left, 0), CHANGES_WITHIN))
            if trio.current_time() >= self._clean_due(cleaned):
                await self.clean()
                self._log.old.compare_anew()
                self.try_dispatch()
                cleaned = trio.current_time()

    def _clean_due(self, cleaned: float) -> float:
        """When the next cleaning is, as the interval is now."""
        return cleaned + self._options.clean_resource_interval_ms / 1000

    def _fail_unless_full(self, error: OSError) -> None:
        """A full disk is waited for; one that refuses for another reason is not to be trusted."""
        if not is_for_a_while(error):
            self._commit.fail(error)

    async def _sync(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do some syncing work; if it fails the store has failed.

        Raises:
            StoreFailedError: It failed.
        """
        self._commit.check()
        async with self.files_lock:
            try:
                await work()
            except OSError as error:
                self._commit.fail(error)
        self._commit.check()
