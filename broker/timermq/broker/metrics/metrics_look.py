"""What a page of metrics is made of: one look at the broker and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import attrs

from timermq.timerstore.consume_queue import ConsumeQueue

from ..broker_statistics import BrokerStatistics
from ..client_registry import ClientRegistry
from ..consumer_offset import ConsumerOffsetTable
from ..topic_config import TopicConfig

TIMER_BOUNDS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""RocketMQ's bounds of ``timer_message_snapshot``, seconds ahead of now."""


@attrs.frozen(kw_only=True)
class GroupLag:
    """How far a group is behind on one topic."""

    group: str
    topic: str
    messages: int


@attrs.frozen(kw_only=True)
class MetricsLook:
    """What one page of metrics is made of."""

    broker_name: str
    cluster_name: str
    version: str
    permission: int
    series_max: int
    """Rows of a family; the rest is added up."""
    statistics: BrokerStatistics
    cpu_ms: int
    memory_size: int
    memory_own_size: int
    message_reserve_ms: int
    """Age of the oldest message in the store."""
    stored_by_topic: Mapping[str, int]
    """Ends of each topic's queues, added up."""
    message_types: Mapping[str, str]
    """Topic to the type of its messages, of those that declare one."""
    pulled: Mapping[tuple[str, str], int]
    """Messages that consumers were given since the start, by topic and group."""
    pulled_size: Mapping[tuple[str, str], int]
    """Bytes of them."""
    lags: Iterable[GroupLag]
    due_within: Mapping[int, int]
    """Messages in the wheel by `TIMER_BOUNDS_S`: ahead of the bound, not of the one before."""
    enqueue_lag_ms: int
    """Age of the oldest message that has no place in the wheel yet; 0 when all have one."""
    read_lag_ms: int
    producers: Mapping[tuple[str, ...], int]
    """Connections by language and version."""
    consumers: Mapping[tuple[str, ...], int]
    """Connections by group, language, version and mode."""


def stored_by_topic(queues: Iterable[ConsumeQueue]) -> dict[str, int]:
    """How many messages each topic has taken since it began: the ends of its queues."""
    stored: Counter[str] = Counter()
    for queue in queues:
        stored[queue.topic] += queue.max_offset
    return dict(stored)


def message_types(topics: Iterable[TopicConfig]) -> dict[str, str]:
    """What the topics declare of their messages, in RocketMQ's words for metrics."""
    return {
        config.topic_name: config.attributes["message.type"].lower()
        for config in topics
        if "message.type" in config.attributes
    }


def group_lags(
    offsets: ConsumerOffsetTable, ends: Mapping[tuple[str, int], int]
) -> Iterator[GroupLag]:
    """What each group has still to consume, of the topics that it has committed to.

    Args:
        offsets: What the groups committed.
        ends: Topic and queue to the offset after its newest message.
    """
    for group, topic, committed in offsets.all():
        behind = (
            max(0, ends.get((topic, queue_id), 0) - offset)
            for queue_id, offset in committed.items()
        )
        yield GroupLag(group=group, topic=topic, messages=sum(behind))


def connections(clients: ClientRegistry) -> tuple[Counter[tuple[str, ...]], ...]:
    """Producers by language and version; consumers by group, language, version and mode."""
    producers: Counter[tuple[str, ...]] = Counter()
    consumers: Counter[tuple[str, ...]] = Counter()
    sessions = {
        session: member
        for group in clients.producer_groups()
        for session, member in clients.producers(group).items()
    }
    for member in sessions.values():
        producers[member.language.name, str(member.version)] += 1
    for info in clients.consumer_groups():
        for member in info.members.values():
            key = (info.group, member.language.name, str(member.version), info.consume_type)
            consumers[key] += 1
    return producers, consumers
