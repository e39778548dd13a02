"""Tests of topic and group names."""

import pytest

from timermq.broker.topic_validator import (
    dlq_topic,
    group_fault,
    group_of,
    is_not_allowed_send_topic,
    is_retry_topic,
    retry_topic,
    topic_fault,
)


@pytest.mark.parametrize("topic", ["A", "a-b_c", "%RETRY%g", "x" * 127, "a|b", "TBW102"])
def test_legal_topics(topic: str) -> None:
    """Letters, digits and four marks are legal, up to 127 of them."""
    assert topic_fault(topic) is None


@pytest.mark.parametrize(
    "topic",
    ["../etc", "a/b", "a\\b", ".", "a b", "a\x00", "a\x01b", "naïve", "a\n", "a.b", "标签"],
)
def test_other_characters_are_illegal(topic: str) -> None:
    """No name can leave its directory or carry a separator."""
    assert topic_fault(topic) == (
        f"the topic {topic!a} has other characters than % | a-z A-Z 0-9 _ -"
    )


def test_lengths() -> None:
    """A topic has at most 127 characters, a retry or dead-letter topic 255, a group 120."""
    assert topic_fault("") == "the topic is empty"
    assert topic_fault("x" * 128) == "the topic has 128 characters, expected at most 127"
    assert topic_fault("%RETRY%" + "x" * 248) is None
    assert topic_fault("%DLQ%" + "x" * 251) == (
        "the topic has 256 characters, expected at most 255"
    )
    assert group_fault("x" * 120) is None
    assert group_fault("x" * 121) == "the group has 121 characters, expected at most 120"
    assert group_fault("") == "the group is empty"


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer",
        "rmq_sys_anything",
    ],
)
def test_internal_topics_take_nothing_from_outside(topic: str) -> None:
    """RocketMQ's list, and the timer topic that it forgets."""
    assert is_not_allowed_send_topic(topic)


@pytest.mark.parametrize(
    "topic", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_x", "T", "%RETRY%g"]
)
def test_traces_and_ordinary_topics_are_written_by_clients(topic: str) -> None:
    """Clients with tracing write the trace topics."""
    assert not is_not_allowed_send_topic(topic)


def test_topics_of_a_group() -> None:
    """Retry and dead-letter topics are named after the group."""
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert is_retry_topic("%RETRY%g")
    assert not is_retry_topic("%DLQ%g")
    assert group_of("%RETRY%g") == "g"
