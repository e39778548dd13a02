"""The queues of the classic levels that RocketMQ left: what of them still waits, in order of time.

On ``SCHEDULE_TOPIC_XXXX`` queue n holds level n + 1, and beside each position the moment at which
the message is due, which RocketMQ computed when it stored it. Within a queue the moments ascend,
as long as neither the table of levels was changed nor the clock set back.

Source: Java ``ScheduleMessageService``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.message_store import MessageStore

ENTRY = np.dtype(
    [("moment_ms", np.int64), ("level", np.int64), ("offset_py", np.int64), ("size_py", np.int64)]
)
"""A pending message: when it is due, its level, where its record stands, and its size."""

Entries = NDArray[np.void]
"""An array of ``ENTRY``."""


@attrs.define(eq=False)
class LevelQueue:
    """One queue and how far it is through."""

    queue: ConsumeQueue
    next_offset: int
    """Queue offset of the next message."""

    @property
    def level(self) -> int:
        """The level of its messages, from 1 on."""
        return self.queue.queue_id + 1

    @property
    def left(self) -> int:
        """Number of messages that still wait in the queue."""
        return self.queue.max_offset - max(self.next_offset, self.queue.min_offset)

    def head(self, count_max: int) -> Entries:
        """The next messages, in the order of the queue."""
        self.next_offset = max(self.next_offset, self.queue.min_offset)
        units = self.queue.units(self.next_offset, min(count_max, self.left))
        entries = np.empty(len(units), ENTRY)
        entries["moment_ms"], entries["level"] = units["tags_code"], self.level
        entries["offset_py"], entries["size_py"] = units["phy_offset"], units["size"]
        return entries


class LevelQueues:
    """All of them.

    Args:
        store: Open, read only or not.
        offsets: Level to the queue offset of its next message; a level without one is at its
            beginning, an offset that its queue does not have is moved to the nearest that it has.
    """

    def __init__(self, store: MessageStore, offsets: Mapping[int, int]) -> None:
        self.queues = [
            LevelQueue(one, min(max(offsets.get(one.queue_id + 1, 0), one.min_offset), end))
            for one in store.queues()
            if one.topic == SCHEDULE_TOPIC and (end := one.max_offset) > 0
        ]

    @property
    def left(self) -> int:
        """Messages that wait on all levels."""
        return sum(one.left for one in self.queues)

    @property
    def offsets(self) -> dict[int, int]:
        """Level to the queue offset of its next message."""
        return {one.level: one.next_offset for one in self.queues}

    def heads(self) -> Entries:
        """The next message of each level that has one."""
        return np.concatenate([np.empty(0, ENTRY), *(one.head(1) for one in self.queues)])

    def due_first(self, count_max: int) -> Entries:
        """The next messages over all levels, those that are due first in front.

        Of a level nothing is passed over: a message that stands behind one with a later moment
        waits for it.
        """
        heads = [one.head(count_max) for one in self.queues]
        entries = np.concatenate([np.empty(0, ENTRY), *heads])
        turn_ms = [np.empty(0, np.int64)]
        turn_ms += [np.maximum.accumulate(one["moment_ms"]) for one in heads if len(one)]
        return entries[np.argsort(np.concatenate(turn_ms), kind="stable")[:count_max]]

    def pass_by(self, entries: Entries) -> None:
        """Take what ``due_first`` gave as done."""
        levels, counts = np.unique(entries["level"], return_counts=True)
        done = dict(zip(levels.tolist(), counts.tolist(), strict=True))
        for one in self.queues:
            one.next_offset += done.get(one.level, 0)


def count_left(store: MessageStore) -> int:
    """How many messages wait for a classic level; all that are there when the file says nothing.

    A take-over that was cut off has moved some of them already.

    Args:
        store: Open, read only or not.
    """
    known = DelayOffsets.load(store.disk, store.root)
    return LevelQueues(store, {} if known is None else known.offsets).left
