"""How many messages come to each topic and how large they are, read from the queues now and then.

A unit of a queue holds the size of its record, so nothing is counted while a message is stored.
Messages that are cleaned before they were read are not counted. Scrapes of metrics and the broker's
statistics read the queues; one reading may begin during a pause of another.

Source: Java ``SendMessageProcessor.handlePutMessageResult``; bounds as in
``BrokerMetricsManager.registerMetricsView``.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from timermq.timerstore.message_store import MessageStore

from ..histogram import Histogram
from ..topic_validator import DLQ_GROUP_TOPIC_PREFIX, TRANS_OP_HALF_TOPIC, is_system_topic

SIZE_BOUNDS = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
"""Bytes of a record: bounds of the histogram."""
READ_COUNT = 16_384
"""Units that are looked at between two turns of everything else: less than a millisecond."""
QUEUE_COUNT = 1_024
"""Queues that nothing has come to, the same."""

_BOUNDS = np.array(SIZE_BOUNDS)


@attrs.define(eq=False)
class StoredSizes:
    """Bytes of records, by topic, since a beginning."""

    by_topic: dict[str, Histogram] = attrs.field(factory=dict[str, Histogram], init=False)
    count: int = attrs.field(default=0, init=False)
    """Messages of all topics, deleted ones too, as RocketMQ counts them for a broker: without dead
    letters and without the marks that end transactions."""
    user_count: int = attrs.field(default=0, init=False)
    """Of these, messages of users' topics."""
    _seen: dict[tuple[str, int], int] = attrs.field(factory=dict[tuple[str, int], int], init=False)
    """Queue to the offset of the first unit that was not read."""

    def begin(self, store: MessageStore) -> None:
        """Count what comes from now on."""
        self._seen = {(one.topic, one.queue_id): one.max_offset for one in store.queues()}

    def read(self, store: MessageStore) -> Iterator[None]:
        """Count messages since the last reading; yields between pieces of work.

        Deleted topics are left out. Cut off, it goes on there the next time.
        """
        known = 0
        for number, queue in enumerate(store.queues(), 1):
            if number % QUEUE_COUNT == 0:
                yield
            place, end = (queue.topic, queue.queue_id), queue.max_offset
            if store.queue(*place) is not queue:
                continue  # it was deleted while others had their turn
            if self._seen.get(place, 0) > end:
                self._seen[place] = 0  # it was deleted, and made again
            known += 1
            while store.queue(*place) is queue:
                first = max(self._seen.get(place, 0), queue.min_offset)
                self._seen[place] = first
                if first >= end:
                    break
                units = queue.units(first, min(end - first, READ_COUNT))
                if not len(units):
                    break
                self._seen[place] = first + len(units)
                self._count(queue.topic, units["size"].astype(np.int64))
                yield
        if len(self._seen) > known:
            self._forget(store)

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic: one that is made again under its name counts from 0."""
        self.by_topic.pop(topic, None)
        self._seen = {place: end for place, end in self._seen.items() if place[0] != topic}

    def _forget(self, store: MessageStore) -> None:
        """Drop the counts of deleted topics."""
        topics: set[str] = set()
        for place in list(self._seen):
            if store.queue(*place) is None:
                del self._seen[place]
            else:
                topics.add(place[0])
        for topic in self.by_topic.keys() - topics:
            del self.by_topic[topic]

    def _count(self, topic: str, sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        found = self.by_topic.get(topic)
        if found is None:
            found = self.by_topic[topic] = Histogram(SIZE_BOUNDS)
        if topic != TRANS_OP_HALF_TOPIC and not topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            self.count += len(sizes)
            if not is_system_topic(topic):
                self.user_count += len(sizes)
        places = np.searchsorted(_BOUNDS, sizes)
        counts = np.bincount(places, minlength=len(SIZE_BOUNDS) + 1)
        found.add(counts.tolist(), int(sizes.sum()))
