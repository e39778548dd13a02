"""Putting messages: whether the store takes them now, and the way from batch to log and queues.

Corresponds to DefaultMessageStore.asyncPutMessages and CommitLog.asyncPutMessages.
"""

from collections.abc import Callable, Sequence

from .cleaning import Cleaner
from .commit_log import CommitLog
from .copy_columns import CopyColumns, CopyColumnsWriter
from .dispatch import Dispatcher
from .errors import StoreFailedError
from .group_commit import GroupCommit
from .index_follower import IndexFollower
from .message import Message
from .message_columns import MessageColumns, MessageColumnsWriter, StoredColumns
from .put_status import PutResult, PutStatus
from .record_writer import EncodedBatch, RecordWriter
from .store_options import StoreOptions
from .topic_queue import TopicQueueTable


class StoreWriter:
    """The only one that appends to the log of a store.

    Args:
        options: Limits.
        log: The log.
        topic_queues: Next queue offsets.
        store_host: Address in new records, packed.
        dispatcher: Gets what was stored.
        commit: Says whether the log has failed.
        cleaner: Says whether the disk is full.
        index: Told what was written; None without an index.
        now_ms: Wall clock.
        last_store_ms: Store time of the newest record, 0 for an empty log.
    """

    def __init__(
        self,
        options: StoreOptions,
        *,
        log: CommitLog,
        topic_queues: TopicQueueTable,
        store_host: bytes,
        dispatcher: Dispatcher,
        commit: GroupCommit,
        cleaner: Cleaner,
        index: IndexFollower | None,
        now_ms: Callable[[], int],
        last_store_ms: int,
    ) -> None:
        self.last_store_ms = last_store_ms
        """Store time of the newest message; it never goes back, whatever the clock does."""
        self.put_count = 0
        """Messages stored."""
        self.put_size = 0
        """Bytes that the log grew by."""
        self.refused_count = 0
        self.closed: str | None = None
        """Why nothing is stored any more."""
        self.lead_refusal: Callable[[], str | None] | None = None
        """Says why this store is not the one to write to now; None if nothing else can be."""
        self.replicas_refusal: Callable[[], str | None] | None = None
        """Says why sends are refused for want of replicas; None without any."""
        self._options = options
        self._log = log
        self._records = RecordWriter(options, topic_queues, store_host)
        self._copies = CopyColumnsWriter(topic_queues, store_host)
        self._columns = MessageColumnsWriter(
            topic_queues,
            store_host,
            body_size_max=self._records.body_size_max,
            record_size_max=self._records.record_size_max,
        )
        self._dispatcher = dispatcher
        self._commit = commit
        self._cleaner = cleaner
        self._index = index
        self._now_ms = now_ms

    def put(
        self, messages: Sequence[Message], *, even_when_full: bool, whole: bool = False
    ) -> list[PutResult]:
        """Store a batch and hand its queue units to the dispatcher; see `MessageStore.put`."""
        refusal = self.refusal(even_when_full=even_when_full)
        if refusal is not None:
            self.refused_count += len(messages)
            return [refusal] * len(messages)
        log = self._log
        start = log.max_offset
        store_ms = max(self._now_ms(), self.last_store_ms)
        batch = self._records.encode(
            messages, start=start, room=log.room, store_ms=store_ms, were_taken=even_when_full
        )
        self.refused_count += len(messages) - batch.count
        refusal = None if even_when_full else self._growth_refusal(batch)
        if refusal is None and whole:
            refusal = self._part_refusal(batch)
        refusal = refusal or self._write(batch, store_ms)
        if refusal is None:
            return batch.results
        return [
            refusal if result.status is PutStatus.PUT_OK else result for result in batch.results
        ]

    def put_columns(self, columns: MessageColumns) -> StoredColumns | list[PutResult]:
        """Store a run of messages together, or one by one where that cannot be."""
        log = self._log
        store_ms = max(self._now_ms(), self.last_store_ms)
        encoded = None
        if self.refusal(even_when_full=False) is None:
            encoded = self._columns.encode(
                columns, start=log.max_offset, room=log.room, store_ms=store_ms
            )
        if encoded is None:
            return self.put(columns.messages(), even_when_full=False)
        batch, stored = encoded
        refusal = self._write(batch, store_ms)
        return stored if refusal is None else [refusal] * len(columns)

    def put_copy_columns(self, columns: CopyColumns) -> PutResult | None:
        """Store a run of copies with their queue units; see `MessageStore.put_copy_columns`."""
        refusal = self.refusal(even_when_full=True)
        if refusal is not None:
            self.refused_count += len(columns)
            return refusal
        log = self._log
        start = log.max_offset
        store_ms = max(self._now_ms(), self.last_store_ms)
        batch = self._copies.encode(columns, start=start, room=log.room, store_ms=store_ms)
        if batch is None:
            return None
        refusal = self._write(batch, store_ms)
        return refusal or PutResult(PutStatus.PUT_OK, start, batch.end - start, store_ms=store_ms)

    def copied(self, count: int, size: int, store_ms: int) -> None:
        """Count what was appended as a copy of another log.

        Args:
            count: Records.
            size: Bytes of the log.
            store_ms: Newest store time; 0 without a record.
        """
        self.put_count += count
        self.put_size += size
        self.last_store_ms = max(self.last_store_ms, store_ms)

    def refusal(self, *, even_when_full: bool) -> PutResult | None:
        """The result of every message while the store takes none."""
        status = PutStatus.SERVICE_NOT_AVAILABLE
        if self.closed is not None:
            return PutResult(status, remark=self.closed)
        if self.lead_refusal is not None and (remark := self.lead_refusal()) is not None:
            return PutResult(status, remark=remark)
        if self._commit.failure is not None:
            return PutResult(status, remark=f"store has failed: {self._commit.failure}")
        if self._dispatcher.failure is not None:
            return PutResult(status, remark=f"consume queue: {self._dispatcher.failure}")
        if self._cleaner.refusal is not None and not even_when_full:
            return PutResult(status, remark=self._cleaner.refusal)
        if self.replicas_refusal is not None and not even_when_full:
            remark = self.replicas_refusal()
            if remark is not None:
                return PutResult(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, remark=remark)
        if self._options.is_sync_flush:
            unflushed = self._log.max_offset - self._log.flushed_where
            limit = self._options.unflushed_size_max
            if unflushed > limit:
                remark = f"{unflushed} bytes await their sync: expected at most {limit}"
                return PutResult(PutStatus.OS_PAGE_CACHE_BUSY, remark=remark)
        return None

    def _growth_refusal(self, batch: EncodedBatch) -> PutResult | None:
        """Refuse a send that would take the room which deliveries need: they write records too."""
        count = len(batch.segment_starts)
        if not count or not self._log.segments:
            return None
        remark = self._cleaner.growth_refusal(self._log.segment_size, count)
        if remark is None:
            return None
        batch.undo()
        self.refused_count += batch.count
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark=remark)

    def _part_refusal(self, batch: EncodedBatch) -> PutResult | None:
        """Refuse a batch that is to be stored as a whole for the first message that may not be."""
        found = next((one for one in batch.results if one.status is not PutStatus.PUT_OK), None)
        if found is not None:
            batch.undo()
            self.refused_count += batch.count
        return found

    def _write(self, batch: EncodedBatch, store_ms: int) -> PutResult | None:
        """Bring a batch to the log and to the dispatcher; a refusal when the disk takes none."""
        start = self._log.max_offset
        try:
            self._log.append(batch.segment_starts, batch.writes)
        except (OSError, StoreFailedError) as error:
            batch.undo()
            if isinstance(error, StoreFailedError):
                self._commit.fail(error)
            self.refused_count += batch.count
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, remark=f"commit log: {error}")
        if batch.writes:
            self.last_store_ms = store_ms
            self.put_count += batch.count
            self.put_size += batch.end - start
            self._dispatcher.add(batch.dispatch())
            if self._index is not None and batch.fresh is not None:
                self._index.offer(batch.fresh)
        return None
