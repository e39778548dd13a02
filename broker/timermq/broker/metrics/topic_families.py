"""Counters and gauges by topic and by group, under RocketMQ's names and labels.

The labels follow from the names and the table of topics at a scrape. ``message_type`` is
what the topic declares: RocketMQ looks into the properties of each message.

Source: RocketMQ's ``BrokerMetricsConstant``, ``BrokerMetricsManager.isSystem``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from timermq.timerstore.topic_name import DLQ_GROUP_TOPIC_PREFIX

from ..topic_validator import is_retry_topic, is_system_group, is_system_topic
from .group_progress import GroupProgress
from .metrics_snapshot import MetricsSnapshot
from .series import Labels, LargestCounters, histogram, labelled, largest

REMOTING = "remoting"
"""The protocol of all clients."""

UNSPECIFIED = "unspecified"
"""Type of the messages of a topic that declares none."""


def topic_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Messages stored, given to consumers, given up, and pending, by topic or group."""
    counters = LargestCounters(snapshot.series_max)
    labels = ["topic", "message_type", "is_system"]

    def labels_of(topic: str) -> Labels:
        return topic, snapshot.message_types.get(topic, UNSPECIFIED), _is_system(topic)

    yield counters.family(
        "rocketmq_messages_in",
        "Messages stored on a topic since it began; delayed ones when they are delivered",
        labels,
        snapshot.stored_by_topic.items(),
        labels_of,
    )
    yield counters.family(
        "rocketmq_throughput_in",
        "Bytes of records stored on a topic since the start",
        labels,
        ((topic, one.total) for topic, one in snapshot.sizes.items()),
        labels_of,
    )
    yield counters.histograms(
        "rocketmq_message_size",
        "Bytes of records stored since the start",
        labels,
        snapshot.sizes,
        labels_of,
    )
    yield counters.histograms(
        "rocketmq_delay_message_latency_seconds",
        "How far ahead messages were put on the wheel since the start",
        ["topic"],
        snapshot.delays,
        lambda topic: (topic,),
    )
    yield _given_out(counters, "messages", "Messages", snapshot.pulled)
    yield _given_out(counters, "throughput", "Bytes of messages", snapshot.pulled_size)
    yield counters.family(
        "rocketmq_send_to_dlq_messages",
        "Messages that a group gave up since its dead letters began",
        ["consumer_group", "is_system"],
        _given_up(snapshot.stored_by_topic),
        lambda group: (group, _said(is_system_group(group))),
    )
    yield counters.unnamed()
    yield from _group_families(snapshot)
    pending = snapshot.statistics.timer.pending_by_topic.items()
    yield labelled(
        GaugeMetricFamily(
            "rocketmq_timing_messages", "Messages that wait, by their topic", labels=["topic"]
        ),
        largest(
            ((topic, count) for topic, count in pending if count > 0),
            snapshot.series_max,
            lambda topic: (topic,),
        ),
    )


def _group_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """How far the groups are; ages only for the rows that have a name."""
    labels = ["consumer_group", "topic", "is_retry", "is_system"]

    def labels_of(one: GroupProgress) -> Labels:
        is_retry, is_system = is_retry_topic(one.topic), _is_system(one.topic, one.group)
        return one.group, one.topic, _said(is_retry), is_system

    def family(name: str, text: str, value: Callable[[GroupProgress], int]) -> Metric:
        told = largest(
            ((one, value(one)) for one in snapshot.groups), snapshot.series_max, labels_of
        )
        return labelled(GaugeMetricFamily(name, text, labels=labels), told)

    def ages(name: str, text: str, value: Callable[[GroupProgress], int | None]) -> Metric:
        told = ((one, value(one)) for one in snapshot.groups)
        known = sorted((labels_of(one), age) for one, age in told if age is not None)
        return labelled(GaugeMetricFamily(name, text, labels=labels), known)

    yield family(
        "rocketmq_consumer_lag_messages",
        "Messages that a group has not consumed",
        lambda one: one.lag,
    )
    yield ages(
        "rocketmq_consumer_lag_latency_milliseconds",
        "Age of the oldest message that a group has not consumed",
        lambda one: one.lag_ms,
    )
    yield family(
        "rocketmq_consumer_inflight_messages",
        "Messages that a group was given and has not consumed",
        lambda one: one.in_hand,
    )
    yield family(
        "rocketmq_consumer_ready_messages",
        "Messages that a group was not given yet, where it has pulled since the start",
        lambda one: one.ready,
    )
    yield ages(
        "rocketmq_consumer_queueing_latency_milliseconds",
        "Age of the oldest message that a group was not given yet",
        lambda one: one.queueing_ms,
    )


def creation_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """How long topics and groups took that an administrator made or changed."""
    yield histogram(
        "rocketmq_topic_create_execution_time_milliseconds",
        "Until a topic that an administrator makes or changes is on the disk",
        ["invocation_status", "is_system"],
        (
            ((outcome, _said(is_system)), one)
            for (outcome, is_system), one in sorted(snapshot.topics_made.items())
        ),
    )
    yield histogram(
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "Until a consumer group that an administrator makes or changes is on the disk",
        ["invocation_status"],
        (((outcome,), one) for (outcome, _), one in sorted(snapshot.groups_made.items())),
    )


def consumer_connections(snapshot: MetricsSnapshot) -> Metric:
    """Connected consumers by their group, and what they are."""
    names = ["consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"]
    family = GaugeMetricFamily("rocketmq_consumer_connections", "Connected consumers", labels=names)

    def labels_of(values: Labels) -> Labels:
        return *values, REMOTING, _said(is_system_group(values[0]))

    return labelled(family, largest(snapshot.consumers.items(), snapshot.series_max, labels_of))


def _given_out(
    counters: LargestCounters, what: str, text: str, given: Mapping[tuple[str, str], int]
) -> Metric:
    def labels_of(key: tuple[str, str]) -> Labels:
        topic, group = key
        return topic, group, _said(is_retry_topic(topic)), _is_system(topic, group)

    return counters.family(
        f"rocketmq_{what}_out",
        f"{text} that a group was given since the start",
        ["topic", "consumer_group", "is_retry", "is_system"],
        given.items(),
        labels_of,
    )


def _given_up(stored_by_topic: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for topic, count in stored_by_topic.items():
        if topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            yield topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX), count


def _is_system(topic: str, group: str = "") -> str:
    """Whether topic or group is one of RocketMQ's own."""
    return _said(is_system_topic(topic) or is_system_group(group))


def _said(value: bool) -> str:
    return str(value).lower()
