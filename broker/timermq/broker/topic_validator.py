"""Names of topics and groups: which are legal, which are internal, how they derive from each other.

Source: Java ``TopicValidator``, ``MixAll``.
"""

from __future__ import annotations

from timermq.pipeline.records.system_topics import TRACE_TOPIC, TRACE_TOPIC_PREFIX
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC as SCHEDULE_TOPIC
from timermq.timerstore.topic_name import (
    DLQ_GROUP_TOPIC_PREFIX as DLQ_GROUP_TOPIC_PREFIX,
)
from timermq.timerstore.topic_name import (
    RETRY_GROUP_TOPIC_PREFIX as RETRY_GROUP_TOPIC_PREFIX,
)
from timermq.timerstore.topic_name import group_fault as group_fault
from timermq.timerstore.topic_name import topic_fault as topic_fault

REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"

AUTO_CREATE_TOPIC_KEY_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC_KEY_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        "CHECKPOINT_TOPIC",
    }
)

NOT_ALLOWED_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
"""Topics that only the broker writes, by RocketMQ's list."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
TRANS_GROUP = "CID_RMQ_SYS_TRANS"
"""Commits how far transactions are through."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


def is_system_group(group: str) -> bool:
    """Whether the group is one of RocketMQ's own, by its name."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_not_allowed_send_topic(topic: str) -> bool:
    """Whether only the broker itself may write the topic.

    RocketMQ lets producers write ``rmq_sys_wheel_timer``; such a producer would choose the
    internal properties of a timer itself.
    """
    return topic in NOT_ALLOWED_SEND_TOPICS or (
        topic.startswith(SYSTEM_TOPIC_PREFIX) and not topic.startswith(TRACE_TOPIC_PREFIX)
    )


def is_system_topic(topic: str) -> bool:
    """Whether the topic is one of RocketMQ's own, by its name."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_retry_topic(topic: str) -> bool:
    """Whether the topic holds the messages that a group tries again."""
    return topic.startswith(RETRY_GROUP_TOPIC_PREFIX)


def retry_topic(group: str) -> str:
    """The topic of the messages that the group tries again."""
    return RETRY_GROUP_TOPIC_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of the messages that the group gave up."""
    return DLQ_GROUP_TOPIC_PREFIX + group


def group_of(topic: str) -> str:
    """The group of a retry topic."""
    return topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
