"""The store: messages go in by topic and queue and come out by queue, key, time or position.

::

    put ──▶ commit log (page cache) ──▶ consume queues ──▶ arrival listeners
                 │                            ▲
                 │ group commit               └ SYNC_FLUSH: only what is synced
                 └──▶ key index (follows in the background)

`put` and all reading are plain functions that do not yield, so there are no locks between them.
Only making things durable waits for the disk, and is async. RocketMQ's DefaultMessageStore.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Self

import trio

from .cleaning import Cleaner
from .consume_queue import ConsumeQueue
from .copy_columns import CopyColumns
from .disk import Disk
from .dispatch import Dispatcher
from .get_result import NO_QUEUE, GetResult
from .group_commit import GroupCommit
from .index_follower import IndexFollower
from .log_copy import LogCopy
from .message import Message
from .message_columns import MessageColumns, StoredColumns
from .pins import Pins
from .put_status import PutResult
from .queue_reader import QueueReader, RecordFilter, TagsFilter
from .store_checkpoint import StoreCheckpoint
from .store_files import StoreFiles, checkpoint_path
from .store_lock import StoreLock
from .store_maintenance import StoreMaintenance
from .store_options import StoreOptions
from .store_recovery import RecoveryReport, apply_recovery, plan_recovery
from .store_statistics import StoreStatistics
from .store_writer import StoreWriter
from .topic_queue import TopicQueueTable

CLOSE_TIMEOUT = 60.0
"""Seconds that closing may take; after them the store is left as after a process kill."""


class MessageStore:
    """A store directory, opened by one process.

    `open` makes one, `run` serves it in the background, `aclose` closes it; all in one event loop.
    """

    def __init__(
        self,
        files: StoreFiles,
        lock: StoreLock,
        recovery: RecoveryReport,
        *,
        disk: Disk,
        root: str,
        now_ms: Callable[[], int],
        store_host: bytes,
    ) -> None:
        self.disk = disk
        self.root = root
        self.options = options = files.options
        self.commit_log = log = files.log
        self.recovery = recovery
        """The result of opening."""
        self.put_back: Callable[[], Awaitable[None]] | None = None
        """Has damaged sectors put back from another copy of the log, as far as that is soon done;
        None: there is no other copy."""
        self.pins = Pins(files.register)
        """The part of the log that its owners need."""
        self._lock = lock
        self._read_only = files.read_only
        self._is_closed = False
        self.files = files
        self._queues = files.queues
        self._register = files.register
        self._topic_queues = TopicQueueTable(files.queues)
        self._dispatcher = Dispatcher(files.queues, log.max_offset)
        self._commit = GroupCommit(log, lambda: self._maintenance.try_dispatch())
        self._reader = QueueReader(log, options)
        self.index = (
            IndexFollower.open(disk, root, log, options, now_ms=now_ms, read_only=files.read_only)
            if options.message_index_enable
            else None
        )
        self._cleaner = Cleaner(
            disk, root, options, log=log, queues=files.queues, index=self.index, now_ms=now_ms
        )
        self._writer = StoreWriter(
            options,
            log=log,
            topic_queues=self._topic_queues,
            store_host=store_host,
            dispatcher=self._dispatcher,
            commit=self._commit,
            cleaner=self._cleaner,
            index=self.index,
            now_ms=now_ms,
            last_store_ms=recovery.last_store_ms,
        )
        if files.read_only:
            self._writer.closed = "store is opened read only"
        self._maintenance = StoreMaintenance(
            disk,
            options,
            log=log,
            queues=files.queues,
            dispatcher=self._dispatcher,
            commit=self._commit,
            index=self.index,
            cleaner=self._cleaner,
            checkpoint=files.checkpoint,
            last_store_ms=lambda: self._writer.last_store_ms,
            pins=self.pins,
            is_checkpointed=recovery.last_exit_ok,
        )
        self.log_copy = LogCopy(
            log,
            files.queues,
            files.register,
            dispatcher=self._dispatcher,
            writer=self._writer,
            index=self.index,
            levels_ms=options.delay_levels_ms,
            follow=self._maintenance.follow,
            delete_topic=self.delete_topic,
        )
        """The end of the log, for another broker's that is copied while this store is parked."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        root: str,
        options: StoreOptions,
        *,
        now_ms: Callable[[], int],
        store_host: bytes,
        read_only: bool = False,
    ) -> Self:
        """Open a store, recovering whatever the last process left; an empty directory is a new one.

        Args:
            disk: Its disk.
            root: Its directory.
            options: Settings; segment sizes must be those of the files.
            now_ms: Wall clock.
            store_host: Address in new records, packed.
            read_only: For tools: any store may be looked at, also one that another process serves,
                and not a byte is written.

        Raises:
            StoreLockedError: Another process serves it.
            StoreKindError: RocketMQ keeps queues or tables of it in RocksDB.
            StoreFormatError: It is no store of these settings, or damaged; nothing was changed.
            OSError: The disk refused.
        """
        lock = StoreLock(disk, root)
        if not read_only:
            for directory in disk.make_dirs(root):
                disk.sync_dir_now(directory)
            lock.take()
        files: StoreFiles | None = None
        try:
            files = StoreFiles.of(
                disk, root, options, last_exit_ok=lock.last_exit_ok, read_only=read_only
            )
            plan = plan_recovery(files)
            if not read_only:
                files.checkpoint = StoreCheckpoint.open(disk, checkpoint_path(root))
                lock.mark_running(os.getpid())
            report = apply_recovery(files, plan)
            return cls(
                files, lock, report, disk=disk, root=root, now_ms=now_ms, store_host=store_host
            )
        except BaseException:
            if files is not None:
                files.close()
            lock.release()
            raise

    @property
    def last_store_ms(self) -> int:
        """Store time of the newest message, 0 for an empty log."""
        return self._writer.last_store_ms

    def dispatch(self) -> int:
        """Log position up to which the queues are complete, once they had what they can take."""
        self._maintenance.try_dispatch()
        return self._dispatcher.dispatched_to

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the store in the background until cancelled: syncs, checkpoint, index, cleaning.

        StoreFailedError: a sync failed; the store takes no more messages. Cancellation: nothing is
        lost; `aclose` flushes what is left.
        """
        await self._maintenance.run(task_status)

    async def aclose(self) -> None:
        """Close the store: everything is made durable, and the next start need not recover.

        Takes at most a minute, also when cancelled; what is not done then, recovery will do.
        StoreFailedError: a sync failed just now.
        """
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            return
        self._is_closed = True
        self._writer.closed = "store is closed"
        try:
            if not self._read_only and self._commit.failure is None:
                with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                    await self._maintenance.close(self._register, self._lock)
        finally:
            self._close_files()

    def abandon(self) -> None:
        """Give files and lock back with nothing written: the next start finds a run cut off."""
        self._close_files()

    def _close_files(self) -> None:
        self.files.close()
        if self.index is not None:
            self.index.close()
        self._lock.release()

    def put(
        self, messages: Sequence[Message], *, even_when_full: bool = False, whole: bool = False
    ) -> list[PutResult]:
        """Store messages, in their order; one result for each.

        They are in the page cache then: a process kill does not lose them, and `wait_flushed` says
        when a power cut does not either. If the disk does not take the batch, none is stored.

        Args:
            messages: What to store; all get the same store time.
            even_when_full: Go on when the disk is nearly full, and whatever the size: for what the
                store holds already and whose delivery makes room, such as due timers.
            whole: A message that may not be stored stops the others, as it does not otherwise.

        Source: DefaultMessageStore.asyncPutMessages.
        """
        results = self._writer.put(messages, even_when_full=even_when_full, whole=whole)
        self._maintenance.follow()
        return results

    def put_columns(self, columns: MessageColumns) -> StoredColumns | list[PutResult]:
        """``put`` for a run of messages; one result for each if they were put one by one."""
        stored = self._writer.put_columns(columns)
        self._maintenance.follow()
        return stored

    def put_copy_columns(self, columns: CopyColumns) -> PutResult | None:
        """Write a run of records again under other topics, also on a full disk: all or none.

        Returns:
            One result for all, from the first to the last; None when they are to be put as
            messages, see `CopyColumnsWriter.encode`.
        """
        result = self._writer.put_copy_columns(columns)
        self._maintenance.follow()
        return result

    def park(self, reason: str) -> None:
        """Store nothing of its own any more: the log is a copy of another broker's from here on.

        Args:
            reason: Why, for those whose messages are refused.
        """
        self._writer.closed = reason
        self._cleaner.is_copy = self.log_copy.is_open = True
        self.log_copy.forget()

    def unpark(self) -> None:
        """Store messages behind what was copied; a store that is closed stays so."""
        if not self._is_closed and not self._read_only:
            # The next offsets of queues are behind the copied records.
            self._topic_queues.clear()
            self._writer.closed = None
            self._cleaner.is_copy = self.log_copy.is_open = False
            self._cleaner.copied_from = None

    def copied_from(self, start: int) -> None:
        """Let segments go that have gone where the log is copied from.

        Args:
            start: Where that log begins.
        """
        self._cleaner.copied_from = start

    def writeable(self) -> str | None:
        """Why sends are refused now, None when they are taken."""
        refusal = self._writer.refusal(even_when_full=False)
        return None if refusal is None else refusal.remark

    async def wait_flushed(self, phy_offset: int) -> bool:
        """Wait until the log is durable up to a position: the `end` of a put's last result.

        All who wait at a time share one sync.

        Returns:
            False when that took longer than ``sync_flush_timeout_ms``, or the store has failed.

        Cancellation: the messages stay stored, and are synced sooner or later.
        """
        return await self._commit.wait_flushed(phy_offset, self.options.sync_flush_timeout_ms)

    def note_confirmed(self, phy_offset: int) -> None:
        """Note with the next checkpoint that another replica has all before a position.

        It is never cut off the log then: another one that lacks it has lost messages.
        """
        self._maintenance.confirmed_to = max(self._maintenance.confirmed_to, phy_offset)

    def confirm_by(self, confirm_offset: Callable[[], int]) -> None:
        """Let queues show only what is before a position; ``dispatch`` when it has moved."""
        self._maintenance.confirm_offset = confirm_offset

    def write_while(self, refusal: Callable[[], str | None]) -> None:
        """Ask before each write whether this store is the one to write to.

        Args:
            refusal: Why it is not at this moment; None while it is. It is called very often.
        """
        self._writer.lead_refusal = refusal

    def refuse_by(self, refusal: Callable[[], str | None]) -> None:
        """Refuse sends as long as a function gives a reason; what ``even_when_full`` goes on."""
        self._writer.replicas_refusal = refusal

    async def wait_appended(self) -> None:
        """Wait until something is put; what was put before does not count."""
        await self._maintenance.wait_appended()

    async def flush(self, *, noted: bool = False) -> None:
        """Make all that was put durable, and note it if wanted; StoreFailedError if that failed."""
        await (self._maintenance.flush_noted() if noted else self._maintenance.flush())

    def fail(self, error: OSError) -> None:
        """Raise StoreFailedError, also from `run`: a file of its owner's was not synced."""
        self._commit.fail(error)
        self._commit.check()

    async def clean(self) -> int:
        """Remove old segments now, as the background does; how many."""
        return await self._maintenance.clean()

    async def delete_topic(
        self,
        topic: str,
        at: Callable[[], None] = lambda: None,
        *,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Remove the queues of a topic; its records stay in the log until they are cleaned.

        Args:
            topic: Its name.
            at: Called in the same step: a message that comes later begins the topic at 0.
            is_wanted: Asked in that step, for which this may wait: False leaves the topic alone.

        Raises:
            OSError: There is no room to note it, and nothing has changed.
            StoreFailedError: A sync failed.

        Source: DefaultMessageStore.deleteTopics.
        """

        def delete() -> None:
            if not is_wanted():
                return
            self._register.delete_topic(topic, self.commit_log.max_offset)
            self._dispatcher.discard_topic(topic)
            self._topic_queues.remove_topic(topic)
            self._queues.delete_topic(topic)
            self.log_copy.forget(topic)
            at()

        await self._maintenance.change_files(delete)

    def on_arrival(self, listener: Callable[[ConsumeQueue], None]) -> None:
        """Have a function called when messages become readable: once a queue and batch.

        It is called inside `put` (or inside the sync, with SYNC_FLUSH) and must be short.
        """
        self._dispatcher.on_arrival(listener)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue, None when no message ever went there."""
        return self._queues.get(topic, queue_id)

    def queues(self) -> Iterable[ConsumeQueue]:
        """All consume queues, of every topic."""
        return list(self._queues)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int,
        bytes_max: int,
        matches: TagsFilter | None = None,
        matches_record: RecordFilter | None = None,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> GetResult:
        """Read messages of a queue from a queue offset on. Source: DefaultMessageStore.getMessage.

        Args:
            topic: Topic.
            queue_id: Queue.
            offset: Where to begin.
            count_max: Most messages; the options' limits hold beside it.
            bytes_max: Most bytes, but for the first message, which comes whatever its size.
            matches: Filter on the tags code, asked first.
            matches_record: Filter on the record.
            is_enough: Whether that has taken long enough; asked before each record but the first.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return NO_QUEUE
        return self._reader.read(
            queue,
            offset,
            count_max=count_max,
            bytes_max=bytes_max,
            matches=matches,
            matches_record=matches_record,
            is_enough=is_enough,
        )

    def query(
        self,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
        unique: bool = False,
    ) -> list[bytes]:
        """Records with a key: `IndexFollower.query`. Source: DefaultMessageStore.queryMessage."""
        if self.index is None:
            return []
        return self.index.query(
            topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms, unique=unique
        )

    def newest_first(self, topic: str, key: str, *, unique: bool) -> Iterator[tuple[int, bytes]]:
        """As `IndexFollower.newest_first`; none where the store has no index."""
        return self.index.newest_first(topic, key, unique=unique) if self.index else iter(())

    def store_ms_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of a message, -1 when it is not there."""
        return self._reader.store_ms_at(self.queue(topic, queue_id), offset)

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False
    ) -> int:
        """See `QueueReader.offset_by_time`; 0 without a queue."""
        return self._reader.offset_by_time(self.queue(topic, queue_id), time_ms, upper=upper)

    def statistics(self) -> StoreStatistics:
        """Counters and positions as they are now."""
        log = self.commit_log
        return StoreStatistics(
            put_count=self._writer.put_count,
            put_size=self._writer.put_size,
            refused_count=self._writer.refused_count,
            flush_count=self._commit.flush_count,
            min_phy_offset=log.min_offset,
            max_phy_offset=log.max_offset,
            flushed_where=log.flushed_where,
            dispatched_to=self._dispatcher.dispatched_to,
            indexed_to=log.max_offset if self.index is None else self.index.position,
            queue_count=len(self._queues),
            last_store_ms=self._writer.last_store_ms,
            disk_used_ratio=self._cleaner.used_ratio,
            refusal=self.writeable(),
        )
