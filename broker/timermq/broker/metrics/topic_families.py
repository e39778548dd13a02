"""What is counted by topic and by group, under RocketMQ's names and labels.

The labels follow from the names and the table of topics when somebody asks. ``message_type`` is
what the topic declares: RocketMQ looks into the properties of each message.

Source: RocketMQ's ``BrokerMetricsConstant``, ``BrokerMetricsManager.isSystem``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from timermq.timerstore.topic_name import DLQ_GROUP_TOPIC_PREFIX

from ..topic_validator import is_retry_topic, is_system_group, is_system_topic
from .metrics_look import MetricsLook
from .series import LargestCounters, Row, labelled, largest

UNSPECIFIED = "unspecified"
"""Type of the messages of a topic that declares none."""


def topic_families(look: MetricsLook) -> Iterator[Metric]:
    """What came, what was given out, what was given up, and what waits."""
    counters = LargestCounters(look.series_max)
    yield counters.family(
        "rocketmq_messages_in",
        "Messages stored on a topic since it began; delayed ones when they are delivered",
        ["topic", "message_type", "is_system"],
        (
            ((topic, look.message_types.get(topic, UNSPECIFIED), _is_system(topic)), count)
            for topic, count in look.stored_by_topic.items()
        ),
    )
    yield _given_out(counters, "messages", "Messages", look.pulled)
    yield _given_out(counters, "throughput", "Bytes of messages", look.pulled_size)
    yield counters.family(
        "rocketmq_send_to_dlq_messages",
        "Messages that a group gave up since its dead letters began",
        ["consumer_group", "is_system"],
        _given_up(look.stored_by_topic),
    )
    yield counters.unnamed()
    lags = (
        (
            (
                lag.group,
                lag.topic,
                _said(is_retry_topic(lag.topic)),
                _is_system(lag.topic, lag.group),
            ),
            lag.messages,
        )
        for lag in look.lags
    )
    yield labelled(
        GaugeMetricFamily(
            "rocketmq_consumer_lag_messages",
            "Messages that a group has not consumed",
            labels=["consumer_group", "topic", "is_retry", "is_system"],
        ),
        largest(lags, look.series_max),
    )
    waiting = look.statistics.timer.pending_by_topic.items()
    yield labelled(
        GaugeMetricFamily(
            "rocketmq_timing_messages", "Messages that wait, by their topic", labels=["topic"]
        ),
        largest((((topic,), count) for topic, count in waiting if count > 0), look.series_max),
    )


def consumer_connections(look: MetricsLook) -> Metric:
    """Connected consumers by their group, and what they are."""
    rows = (
        ((*values, _said(is_system_group(values[0]))), count)
        for values, count in look.consumers.items()
    )
    names = ["consumer_group", "language", "version", "consume_mode", "is_system"]
    family = GaugeMetricFamily("rocketmq_consumer_connections", "Connected consumers", labels=names)
    return labelled(family, largest(rows, look.series_max))


def _given_out(
    counters: LargestCounters, what: str, text: str, given: Mapping[tuple[str, str], int]
) -> Metric:
    return counters.family(
        f"rocketmq_{what}_out",
        f"{text} that a group was given since the start",
        ["topic", "consumer_group", "is_retry", "is_system"],
        (
            ((topic, group, _said(is_retry_topic(topic)), _is_system(topic, group)), value)
            for (topic, group), value in given.items()
        ),
    )


def _given_up(stored_by_topic: Mapping[str, int]) -> Iterator[Row]:
    for topic, count in stored_by_topic.items():
        if topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
            group = topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX)
            yield (group, _said(is_system_group(group))), count


def _is_system(topic: str, group: str = "") -> str:
    """Whether topic or group is one of RocketMQ's own."""
    return _said(is_system_topic(topic) or is_system_group(group))


def _said(value: bool) -> str:
    return str(value).lower()
