"""Names of topics and groups: which are legal. A topic's name becomes a directory of the store.

Source: Java ``TopicValidator``.
"""

from __future__ import annotations

import re

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
"""Characters, which are bytes: all legal ones are ASCII."""

RETRY_GROUP_TOPIC_PREFIX = "%RETRY%"
DLQ_GROUP_TOPIC_PREFIX = "%DLQ%"

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def topic_fault(topic: str) -> str | None:
    """The fault in a topic's name; None without one."""
    if not topic:
        return "the topic is empty"
    length_max = TOPIC_LENGTH_MAX
    if topic.startswith((RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX)):
        length_max = RETRY_TOPIC_LENGTH_MAX
    return name_fault("the topic", topic, length_max)


def group_fault(group: str) -> str | None:
    """The fault in a group's name; None without one."""
    if not group:
        return "the group is empty"
    return name_fault("the group", group, GROUP_LENGTH_MAX)


def name_fault(what: str, name: str, length_max: int) -> str | None:
    """The fault in a name of so many characters at most; None without one."""
    if len(name) > length_max:
        return f"{what} has {len(name)} characters, expected at most {length_max}"
    if _LEGAL.fullmatch(name) is None:
        return f"{what} {name!a} has other characters than % | a-z A-Z 0-9 _ -"
    return None
