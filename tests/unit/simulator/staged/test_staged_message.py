"""Messages that arrive as they were sent, and others."""

from __future__ import annotations

import pytest

from timermq.remoting.stored_message import StoredMessage
from timermq.simulator.staged.staged_message import damage_of

SENT = {"KEYS": "K7", "UNIQ_KEY": "M000007", "TIMER_DELIVER_MS": "1", "CLUSTER": "C"}
BODY = b"M000007....."


def arrived(properties: dict[str, str], body: bytes = BODY) -> StoredMessage:
    """Message 7 as a consumer gets it."""
    return StoredMessage(
        topic="A",
        queue_id=0,
        queue_offset=0,
        phy_offset=0,
        flag=0,
        born_ms=0,
        stored_ms=0,
        reconsume_times=0,
        sys_flag=0,
        body=body,
        properties=properties,
        offset_message_id="",
    )


def test_what_was_sent_is_no_damage() -> None:
    """A broker adds its own properties and the moment."""
    assert damage_of(arrived(SENT)) is None


@pytest.mark.parametrize(
    ("damage", "properties", "body"),
    [
        ("a message named ''", {"KEYS": "K7"}, BODY),
        ("a message named 'M7'", {**SENT, "UNIQ_KEY": "M7"}, BODY),
        ("M000007 has the key 'K8'", {**SENT, "KEYS": "K8"}, BODY),
        ("M000007 has the key None", {"UNIQ_KEY": "M000007"}, BODY),
        ("M000007 has the body b'M000008'", SENT, b"M000008"),
        ("M000007 has the properties REAL_TOPIC", {**SENT, "REAL_TOPIC": "A"}, BODY),
    ],
)
def test_damage_has_words(damage: str, properties: dict[str, str], body: bytes) -> None:
    """Name, key, body, and properties that are a broker's own affair."""
    assert damage == damage_of(arrived(properties, body))
