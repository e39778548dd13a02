"""How far each group is on each topic: what it has to consume, has in hand, and is to be given yet.

Numbers are offsets, which are at hand. Ages need the store time of a record for each queue that is
behind, so they are looked up in pieces, for those groups only that have rows by name.

Source: Java ``ConsumerLagCalculator``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

import attrs

from ..consumer_offset import ConsumerOffsetTable

LOOK_UP_COUNT = 64
"""Store times of one group looked up between two turns of everything else: half a millisecond."""
GROUP_COUNT = 64
"""Groups on a topic that are counted between two such turns."""

StoreMs = Callable[[str, int, int], int]
"""Store time of a message by topic, queue and offset; negative where there is none."""


@attrs.define(kw_only=True)
class GroupProgress:
    """How far a consumer group is with one topic."""

    group: str
    topic: str
    lag: int = 0
    """Messages that it has not committed."""
    in_hand: int = 0
    """Messages of its backlog that it was given."""
    ready: int = 0
    """Messages that it was not given yet; 0 for one that has asked for none since the start."""
    uncommitted: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    """Queues that it has to consume of, with the offset of the first such message."""
    not_given: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    """The same of what it was not given."""
    lag_ms: int | None = None
    """Age of the oldest message that it has not committed; None: it was not looked up."""
    queueing_ms: int | None = None
    """Age of the oldest that it was not given."""

    def add(
        self,
        committed: Mapping[int, int],
        pulled_to: Mapping[int, int],
        given_to: Mapping[int, int],
        ends: Mapping[tuple[str, int], int],
    ) -> None:
        """Count its queues: offsets that it committed, has looked up to, and was given up to."""
        for queue_id, offset in committed.items():
            behind = ends.get((self.topic, queue_id), 0) - offset
            if behind > 0:
                self.lag += behind
                self.uncommitted.append((queue_id, offset))
        for queue_id, offset in pulled_to.items():
            # Messages that a filter leaves out after the last one given are in no hand.
            given = min(given_to.get(queue_id, 0), offset)
            self.in_hand += max(given - committed.get(queue_id, given), 0)
            pending = ends.get((self.topic, queue_id), 0) - offset
            if pending > 0:
                self.ready += pending
                self.not_given.append((queue_id, offset))


def progress_of_groups(
    offsets: ConsumerOffsetTable,
    pulled_to: Mapping[tuple[str, str], Mapping[int, int]],
    given_to: Mapping[tuple[str, str], Mapping[int, int]],
    ends: Mapping[tuple[str, int], int],
) -> Generator[None, None, list[GroupProgress]]:
    """Every group on every topic that it has committed of, or asked for messages of.

    Yields between pieces of work.

    Args:
        offsets: What the groups committed.
        pulled_to: By topic and group: queue to how far the last pull has looked.
        given_to: The same of the last pull that gave something.
        ends: Topic and queue to the offset after its newest message.
    """
    committed = dict.fromkeys((topic, group) for group, topic, _ in offsets.all())
    found: list[GroupProgress] = []
    for number, key in enumerate({**committed, **dict.fromkeys(pulled_to)}, 1):
        topic, group = key
        one = GroupProgress(group=group, topic=topic)
        committed_to = offsets.offsets(group=group, topic=topic)
        one.add(committed_to, pulled_to.get(key, {}), given_to.get(key, {}), ends)
        found.append(one)
        if number % GROUP_COUNT == 0:
            yield
    return found


def look_up_ages(
    groups: Iterable[GroupProgress], count_max: int, now_ms: int, store_ms: StoreMs
) -> Iterator[None]:
    """Look up the age of the backlog of the groups with the most; yields between look-ups.

    Args:
        groups: Their ages are set.
        count_max: So many of them.
        now_ms: The present, epoch milliseconds.
        store_ms: Tells store times.
    """
    for one in heapq.nlargest(count_max, groups, key=lambda one: one.lag + one.ready):
        one.lag_ms = yield from _age(one.topic, one.uncommitted, now_ms, store_ms)
        one.queueing_ms = yield from _age(one.topic, one.not_given, now_ms, store_ms)
        yield


def _age(
    topic: str, places: Sequence[tuple[int, int]], now_ms: int, store_ms: StoreMs
) -> Generator[None, None, int]:
    """Age of the oldest message at some places of a topic; 0 where there is none."""
    oldest_ms = now_ms
    for number, (queue_id, offset) in enumerate(places, 1):
        found_ms = store_ms(topic, queue_id, offset)
        if found_ms >= 0:
            oldest_ms = min(oldest_ms, found_ms)
        if number % LOOK_UP_COUNT == 0:
            yield
    return now_ms - oldest_ms
