"""Which messages of a topic a subscription wants."""

from __future__ import annotations

import pytest

from scripted_server import stored
from timermq.client import ReceivedMessage
from timermq.client.process_queue import Subscribed
from timermq.remoting.stored_message import decode_messages


@pytest.mark.parametrize(
    ("expression", "tag", "is_wanted"),
    [
        ("*", "a", True),
        ("*", "", True),
        (" * ", "a", True),
        ("", "a", True),
        ("a", "a", True),
        ("a || b", "b", True),
        ("a||b", "b", True),
        ("a || b", "c", False),
        ("a", "", False),
        ("Aa", "BB", False),  # one hash, two tags
    ],
)
def test_tags(expression: str, tag: str, is_wanted: bool) -> None:
    """The tag itself is compared, since brokers compare its hash."""
    properties = f"TAGS\x01{tag}\x02" if tag else ""
    (message,) = decode_messages(stored("T", 0, properties=properties))
    subscribed = Subscribed(
        group="G", topic="T", expression=expression, version=1, start_from="last"
    )

    assert is_wanted is subscribed.wants(ReceivedMessage.of(message, 0))
