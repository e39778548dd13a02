"""Tests of changes to a topic's attributes; what is refused stands with the processor's tests."""

from timermq.broker.admin.topic_processor import alter_attributes


def test_changes_one_after_the_other() -> None:
    """What is not named stays; an attribute that is not there can be taken away."""
    current = {"message.type": "NORMAL"}

    assert alter_attributes(current, "") == current
    assert alter_attributes(current, "+reserve.time=-1, +message.type=DELAY") == {
        "message.type": "DELAY",
        "reserve.time": "-1",
    }
    assert alter_attributes(current, "-message.type,-queue.type") == {}
    assert current == {"message.type": "NORMAL"}
