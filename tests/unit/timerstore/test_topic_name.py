"""Which names of topics and groups are legal."""

from __future__ import annotations

import pytest

from timermq.timerstore.topic_name import group_fault, topic_fault


@pytest.mark.parametrize(
    "topic", ["T", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250, "a|b_c-D9"]
)
def test_legal_topics(topic: str) -> None:
    """Letters, digits and five signs; topics of a group may be twice as long."""
    assert topic_fault(topic) is None


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("", "the topic is empty"),
        ("t" * 128, "the topic has 128 characters, expected at most 127"),
        ("%RETRY%" + "g" * 249, "the topic has 256 characters, expected at most 255"),
        ("a/b", "the topic 'a/b' has other characters than % | a-z A-Z 0-9 _ -"),
        ("T\n", "the topic 'T\\n' has other characters than % | a-z A-Z 0-9 _ -"),
        ("标签", "the topic '\\u6807\\u7b7e' has other characters than % | a-z A-Z 0-9 _ -"),
    ],
)
def test_what_is_wrong_with_a_topic(topic: str, fault: str) -> None:
    """No name leads out of the store's directory."""
    assert topic_fault(topic) == fault


def test_what_is_wrong_with_a_group() -> None:
    """A group's name has room for the prefix of its topics."""
    assert group_fault("g" * 120) is None
    assert group_fault("g" * 121) == "the group has 121 characters, expected at most 120"
    assert group_fault("") == "the group is empty"
    assert group_fault("a b") == ("the group 'a b' has other characters than % | a-z A-Z 0-9 _ -")
