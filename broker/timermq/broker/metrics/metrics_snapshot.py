"""The snapshot of a page of metrics: the broker and its tables at one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence

import attrs

from timermq.timerstore.consume_queue import ConsumeQueue

from ..broker_statistics import BrokerStatistics
from ..client_registry import ClientRegistry
from ..histogram import Histogram
from ..topic_config import TopicConfig
from .group_progress import GroupProgress

CONSUME_MODES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}
"""Consume types of groups to RocketMQ's words for metrics."""
FIRST_VERSION, LAST_VERSION = 194, 611
"""Numbers of RocketMQ 3.9.1-SNAPSHOT and 5.9.9, between which each has a number of its own."""

QUEUE_COUNT = 4_096
"""Queues looked at between two turns of everything else: about a millisecond."""

TIMER_BOUNDS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""RocketMQ's bounds of ``timer_message_snapshot``, seconds ahead of now."""


@attrs.frozen(kw_only=True)
class MetricsSnapshot:
    """All values of one page of metrics."""

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
    """Bytes of those messages, by topic and group."""
    sizes: Mapping[str, Histogram]
    """Bytes of the records that came to each topic since the start."""
    delays: Mapping[str, Histogram]
    """Seconds that units were ahead when they were linked since the start, by topic."""
    groups: Sequence[GroupProgress]
    topics_made: Mapping[tuple[str, bool], Histogram]
    """Milliseconds, by outcome, and by whether the topic is one of the broker's own."""
    groups_made: Mapping[tuple[str, None], Histogram]
    commit_latency: Histogram
    """Seconds from the birth of half messages to their commit."""
    due_within: Mapping[int, int]
    """Messages in the wheel by `TIMER_BOUNDS_S`: ahead of the bound, not of the one before."""
    enqueue_lag_ms: int
    """Age of the oldest message that has no place in the wheel yet; 0 when all have one."""
    read_lag_ms: int
    producers: Mapping[tuple[str, ...], int]
    """Connections by language and version."""
    consumers: Mapping[tuple[str, ...], int]
    """Connections by group, language, version and mode."""


def queue_ends(queues: Iterable[ConsumeQueue]) -> Generator[None, None, dict[tuple[str, int], int]]:
    """Topic and queue to the offset after its newest message; yields between pieces of work."""
    ends: dict[tuple[str, int], int] = {}
    for number, queue in enumerate(queues, 1):
        ends[queue.topic, queue.queue_id] = queue.max_offset
        if number % QUEUE_COUNT == 0:
            yield
    return ends


def stored_by_topic(ends: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """How many messages each topic has taken since it began: the ends of its queues."""
    stored: defaultdict[str, int] = defaultdict(int)
    for (topic, _), end in ends.items():
        stored[topic] += end
    return stored


def message_types(topics: Iterable[TopicConfig]) -> dict[str, str]:
    """Topic to its declared type of messages, in RocketMQ's words for metrics."""
    return {
        config.topic_name: config.attributes["message.type"].lower()
        for config in topics
        if "message.type" in config.attributes
    }


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
        producers[member.language.name.lower(), version_name(member.version)] += 1
    for info in clients.consumer_groups():
        for member in info.members.values():
            mode = CONSUME_MODES.get(info.consume_type, info.consume_type.lower())
            key = (info.group, member.language.name.lower(), version_name(member.version), mode)
            consumers[key] += 1
    return producers, consumers


def version_name(version: int) -> str:
    """``v5_3_3`` for 479, as RocketMQ writes what its clients say; the number where no rule leads.

    Source: Java ``MQVersion.getVersionDesc``.
    """
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return "higher_version" if version > LAST_VERSION else str(version)
    number, is_final = divmod(version + 588, 2)
    return f"v{number // 100}_{number // 10 % 10}_{number % 10}{'' if is_final else '_snapshot'}"
