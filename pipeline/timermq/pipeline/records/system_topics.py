"""The topics of the timer service itself, and where its messages may go."""

from __future__ import annotations

from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.topic_name import topic_fault

TIMER_TOPIC = "rmq_sys_wheel_timer"
QUARANTINE_TOPIC = "rmq_sys_TIMERMQ_QUARANTINE"
"""Ours: where undeliverable messages are kept (`quarantine`)."""
CANCEL_MARK_TOPIC = "rmq_sys_TIMERMQ_LEFT_OUT"
"""Ours: marks of cancelled messages (`cancel_mark`)."""
OWN_TOPICS = frozenset({QUARANTINE_TOPIC, CANCEL_MARK_TOPIC})
"""Topics that RocketMQ does not have."""
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRACE_TOPIC_PREFIX = "rmq_sys_TRACE_DATA_"


def is_trace_topic(topic: str) -> bool:
    """Whether clients write their traces there, by its name; any account may."""
    return topic == TRACE_TOPIC or topic.startswith(TRACE_TOPIC_PREFIX)


def destination_fault(topic: str) -> str | None:
    """Why no message can be delivered to a topic; None when it can.

    Of the broker's own topics RocketMQ delivers to some (acknowledgements of POP); what is
    delivered to these would be taken for a timer, for an entry of the quarantine, for a mark, or
    for a classic level.
    """
    if topic in (TIMER_TOPIC, *OWN_TOPICS, SCHEDULE_TOPIC):
        return f"the topic {topic} is the broker's own"
    return topic_fault(topic)
