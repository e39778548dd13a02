"""Dispatch: from the commit log to the consume queues.

A put hands over the units of its batch together with the batch's end in the log. With ASYNC_FLUSH
they go to their queues at once; with SYNC_FLUSH only when the log is durable up to there, so that
no reader finds by queue what a power cut could still undo. Batches stay in the order of the log.

If a queue cannot be written (disk full), its batch and all later ones wait here and are tried
again; the messages themselves are safe in the log.

Corresponds to RocketMQ's DefaultMessageStore.ReputMessageService, but for its own reading of the
log: what was just encoded need not be parsed again.
"""

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from .consume_queue import ConsumeQueue, QueueUnits
from .consume_queue_table import ConsumeQueueTable
from .delay_levels import level_deliver_ms
from .java_hash import tags_code
from .properties import DELAY_NAME, TAGS, TAGS_NAME, find

_MARKED_TAGS = b"\x02" + TAGS
_MARKED_TAGS_SIZE = len(_MARKED_TAGS)


def unit_tags_code(
    properties: bytes, has_levels: bool, store_ms: int, levels_ms: tuple[int, ...]
) -> int:
    """The number that stands beside position and size in a message's queue unit.

    Args:
        properties: The message's properties.
        has_levels: The queue is one of ``SCHEDULE_TOPIC_XXXX``: messages with a level get their
            deliver time in place of the hash of their tags.
        store_ms: Store time of the message.
        levels_ms: Delays of the levels.

    Source: CommitLog.checkMessageAndReturnSize.
    """
    if has_levels:
        level = find(properties, DELAY_NAME)
        if level is not None and level.isdigit() and (number := int(level)) > 0:
            return level_deliver_ms(levels_ms, number, store_ms)
    return tags_code_in(properties)


def tags_code_in(properties: bytes) -> int:
    """The tags code of a message: 0 without tags."""
    # The way of nearly all tags; `find` also knows those that stand first, or are empty.
    at = properties.rfind(_MARKED_TAGS)
    if at >= 0:
        start = at + _MARKED_TAGS_SIZE
        end = properties.find(b"\x02", start)
        if end > start:
            return tags_code(properties[start:end])
    elif not properties.startswith(TAGS):
        return 0
    tags = find(properties, TAGS_NAME)
    return tags_code(tags) if tags else 0


@attrs.define(eq=False)
class DispatchBatch:
    """The queue units of one put."""

    end: int
    """End of the batch in the commit log."""
    queue_units: Sequence[QueueUnits]
    """Units of each queue that the batch touches, each queue once."""


class Dispatcher:
    """Hands units to their queues, in the order of the log.

    Args:
        queues: The queues, told what is dirty.
        dispatched_to: Log position up to which the queues are complete.
    """

    def __init__(self, queues: ConsumeQueueTable, dispatched_to: int) -> None:
        self.dispatched_to = dispatched_to
        """Log position up to which the queues are complete."""
        self.failure: OSError | None = None
        """Why the oldest waiting batch could not be written, None when it was not tried or
        worked."""
        self._queues = queues
        self._waiting: deque[DispatchBatch] = deque()
        self._listeners: list[Callable[[ConsumeQueue], None]] = []

    def on_arrival(self, listener: Callable[[ConsumeQueue], None]) -> None:
        """Have a function called for each touched queue after its units became readable."""
        self._listeners.append(listener)

    def add(self, batch: DispatchBatch) -> None:
        """Take a batch; `advance` brings it to the queues."""
        self._waiting.append(batch)

    def advance(self, limit: int) -> None:
        """Bring the batches that end at or before a log position to their queues.

        A queue that cannot be written stops it; `failure` says why, and the next call tries again.

        Raises:
            StoreFailedError: A sync failed; there must be no next call.
        """
        waiting = self._waiting
        while waiting and waiting[0].end <= limit:
            batch = waiting[0]
            try:
                for part in batch.queue_units:
                    part.queue.append(part.first_offset, part.units, part.end)
            except OSError as error:
                self.failure = error
                return
            waiting.popleft()
            self.failure = None
            self.dispatched_to = batch.end
            for part in batch.queue_units:
                self._queues.mark_dirty(part.queue)
                for listener in self._listeners:
                    listener(part.queue)

    def discard_topic(self, topic: str) -> None:
        """Forget the waiting units of a topic that is deleted."""
        for batch in self._waiting:
            batch.queue_units = [part for part in batch.queue_units if part.queue.topic != topic]
