"""Messages as a program sees them."""

from __future__ import annotations

import datetime
import zlib

import attrs
import lz4.frame
import pytest
import zstandard

from timermq.client import OutgoingMessage, ReceivedMessage, SendReceipt, UnreadableBodyError
from timermq.client.moment import epoch_ms, moment
from timermq.remoting.stored_message import StoredMessage

UTC = datetime.UTC
STORED = StoredMessage(
    topic="T",
    queue_id=3,
    queue_offset=7,
    phy_offset=0,
    flag=0,
    born_ms=10,
    stored_ms=20,
    reconsume_times=1,
    sys_flag=0,
    body=b"hello",
    properties={"UNIQ_KEY": "ID", "KEYS": "a b", "TAGS": "t", "TIMER_DELIVER_MS": "15", "p": "v"},
    offset_message_id="OFFSET",
)


def test_properties_of_an_outgoing_message() -> None:
    """Keys are joined by blanks, and the id is the client's."""
    message = OutgoingMessage(
        topic="T",
        body=b"",
        at=5,
        keys=["a", "b"],
        tag="t",
        properties={"p": "v", "UNIQ_KEY": "forged"},
    )

    text = "p\x01v\x02UNIQ_KEY\x01ID\x02KEYS\x01a b\x02TAGS\x01t\x02TIMER_DELIVER_MS\x015\x02"
    assert text.encode() == message.encode_properties("ID")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, b""),
        ({"level": 3}, b"DELAY\x013\x02"),
        ({"at": 5}, b"TIMER_DELIVER_MS\x015\x02"),
        ({"delay": datetime.timedelta(seconds=2)}, b"TIMER_DELAY_MS\x012000\x02"),
        ({"delay": datetime.timedelta(microseconds=1)}, b"TIMER_DELAY_MS\x011\x02"),
        ({"delay": datetime.timedelta(0)}, b"TIMER_DELAY_MS\x010\x02"),
    ],
)
def test_ways_to_ask_for_a_moment(arguments: dict[str, object], text: bytes) -> None:
    """A moment, a delay and a level have a property each."""
    message = OutgoingMessage(topic="T", body=b"", **arguments)  # type: ignore[arg-type]

    assert text + b"UNIQ_KEY\x01ID\x02" == message.encode_properties("ID")


@pytest.mark.parametrize(
    ("when", "time_ms"),
    [
        (5, 5),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC), 1001),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC), 1001),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC), 0),
    ],
)
def test_moments_are_never_early(when: datetime.datetime | int, time_ms: int) -> None:
    """A part of a millisecond counts as a whole one: rounded down it would fire too soon."""
    assert time_ms == epoch_ms(when)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at": 1, "level": 2}, "expected at most one of at, delay and level"),
        ({"at": datetime.datetime(2026, 1, 1)}, "at: expected a datetime with a time zone"),
        ({"delay": datetime.timedelta(seconds=-1)}, "delay: expected 0 or more"),
        ({"level": 0}, "level: expected 1 or more, found 0"),
        ({"keys": ["two words"]}, "keys: expected texts without blanks"),
        ({"keys": [""]}, "keys: expected texts without blanks"),
    ],
)
def test_arguments_that_do_not_go_together(arguments: dict[str, object], message: str) -> None:
    """What the broker could only refuse is refused before it is sent."""
    with pytest.raises(ValueError, match=f"^{message}"):
        OutgoingMessage(topic="T", body=b"", **arguments)  # type: ignore[arg-type]  # the case


@pytest.mark.parametrize("properties", [{"a": "\x01"}, {"a\x02": "v"}, {"": "v"}, {"a": "\ud800"}])
def test_properties_that_cannot_be_written(properties: dict[str, str]) -> None:
    """Separators and what is no text do not pass."""
    message = OutgoingMessage(topic="T", body=b"", properties=properties)
    with pytest.raises(ValueError, match=r"expected no 0x01|can't encode"):
        message.encode_properties("ID")


def test_received_message() -> None:
    """What a pull brought, with its properties taken apart."""
    message = ReceivedMessage.of(STORED, 18, broker_name="b")

    assert ReceivedMessage(
        topic="T",
        queue_id=3,
        queue_offset=7,
        message_id="ID",
        offset_message_id="OFFSET",
        keys=("a", "b"),
        tags="t",
        properties=STORED.properties,
        raw_body=b"hello",
        born_ms=10,
        stored_ms=20,
        received_ms=18,
        deliver_ms=15,
        reconsume_times=1,
        broker_name="b",
    ) == (message)
    assert 3 == message.lateness_ms


@pytest.mark.parametrize(
    ("sys_flag", "body"),
    [
        (0x001, zlib.compress(b"hello")),
        (0x301, zlib.compress(b"hello")),
        (0x101, lz4.frame.compress(b"hello")),
        (0x201, zstandard.compress(b"hello")),
    ],
)
def test_a_packed_body(sys_flag: int, body: bytes) -> None:
    """What a Java producer may pack with is unpacked; the stored bytes are there too."""
    message = ReceivedMessage.of(attrs.evolve(STORED, sys_flag=sys_flag, body=body), 18)

    assert (b"hello", body) == (message.body, message.raw_body)
    assert message.body is message.body


def test_a_body_that_does_not_unpack() -> None:
    """Only who reads it hears of it, with the place; the stored bytes are there."""
    message = ReceivedMessage.of(attrs.evolve(STORED, sys_flag=0x401), 18)

    with pytest.raises(UnreadableBodyError) as caught:
        _ = message.body
    assert "message T/3@7: body: expected compression 0 to 3, found 4" == str(caught.value)
    assert b"hello" == message.raw_body


def test_received_message_without_properties() -> None:
    """Without a unique key the id is the broker's; without a moment nothing is late."""
    message = ReceivedMessage.of(attrs.evolve(STORED, properties={}), 18)

    assert ("OFFSET", (), "", None, None) == (
        message.message_id,
        message.keys,
        message.tags,
        message.deliver_ms,
        message.lateness_ms,
    )


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "²", "9" * 20, "9" * 5000])
def test_a_moment_that_is_none(text: str) -> None:
    """Anybody may have written the property; the consumer does not fall over it."""
    stored = attrs.evolve(STORED, properties={"TIMER_DELIVER_MS": text})

    assert ReceivedMessage.of(stored, 18).deliver_ms is None


def test_receipt_says_the_moment_in_utc() -> None:
    """The moment comes as a datetime too."""
    receipt = SendReceipt(
        message_id="ID",
        offset_message_id="OFFSET",
        queue_id=0,
        queue_offset=0,
        deliver_ms=1_500,
        recall_handle=None,
    )

    assert datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC) == receipt.deliver_at
    assert moment(1_500) == receipt.deliver_at
    assert attrs.evolve(receipt, deliver_ms=None).deliver_at is None
