"""A store that tells what it reads for consumers, and when its broker writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from timermq.timerstore.get_result import GetResult
from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import MessageColumns, StoredColumns
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutResult
from timermq.timerstore.queue_reader import RecordFilter, TagsFilter


class WatchedStore(MessageStore):
    """The broker's store; what ``get`` has read is told before it is answered.

    What a follower copies is none of its own writing.
    """

    on_get: Callable[[tuple[bytes, ...]], None] | None = None
    """Takes records; neighbours in the log are one item."""
    on_put: Callable[[], None] | None = None
    """Called when messages were stored."""

    def put(
        self, messages: Sequence[Message], *, even_when_full: bool = False, whole: bool = False
    ) -> list[PutResult]:
        """Store messages, as the store does."""
        results = super().put(messages, even_when_full=even_when_full, whole=whole)
        self._tell(results)
        return results

    def put_columns(self, columns: MessageColumns) -> StoredColumns | list[PutResult]:
        """Store a run of messages, as the store does."""
        stored = super().put_columns(columns)
        self._tell(stored)
        return stored

    def _tell(self, stored: StoredColumns | list[PutResult]) -> None:
        is_stored = not isinstance(stored, list) or any(one.status.is_stored for one in stored)
        if is_stored and self.on_put is not None:
            self.on_put()

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
        """Read messages of a queue, as the store does."""
        result = super().get(
            topic,
            queue_id,
            offset,
            count_max=count_max,
            bytes_max=bytes_max,
            matches=matches,
            matches_record=matches_record,
            is_enough=is_enough,
        )
        if self.on_get is not None:
            self.on_get(result.records)
        return result
