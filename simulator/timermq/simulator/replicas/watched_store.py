"""A store that tells what it reads for consumers."""

from __future__ import annotations

from collections.abc import Callable

from timermq.timerstore.get_result import GetResult
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_reader import RecordFilter, TagsFilter


class WatchedStore(MessageStore):
    """The broker's store; what ``get`` has read is told before it is answered."""

    on_get: Callable[[tuple[bytes, ...]], None] | None = None
    """Takes records; neighbours in the log are one item."""

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
