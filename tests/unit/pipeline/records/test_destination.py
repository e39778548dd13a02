"""The topic and queue that a record of the timer topic names for its due time."""

from __future__ import annotations

import pytest

from timermq.pipeline.records import destination
from timermq.pipeline.records.destination import (
    Destination,
    destination_at,
    destination_in,
    known_destination,
    learn_destination,
    shown,
)
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError
from timermq.timerstore.java_hash import java_hash


def text(topic: str = "T", queue_id: str = "3") -> bytes:
    """The end of our records, up to the digits of the slot."""
    return f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02TIMER_OUT_MS\x01".encode()


def test_a_destination_is_known_once_it_was_read() -> None:
    """By its bytes alone; its hash is the one that units hold."""
    ours = text("LearnedTopic")
    assert known_destination(ours) is None
    found = learn_destination(ours)

    assert found is not None
    assert found == Destination("LearnedTopic", 3, java_hash("LearnedTopic"))
    assert found.target == ("LearnedTopic", 3)
    assert known_destination(ours) is found
    assert destination_at(ours.removesuffix(b"TIMER_OUT_MS\x01")) is found


@pytest.mark.parametrize(
    "odd",
    [
        text().removesuffix(b"TIMER_OUT_MS\x01"),
        text(queue_id="03"),
        text(queue_id=""),
        text(queue_id="-1"),
        text(queue_id="1" * 10),
        text("rmq_sys_wheel_timer"),
        text("SCHEDULE_TOPIC_XXXX"),
        text("a/b"),
        text("T\x02TIMER_ROLL_TIMES\x011"),
        text().replace(b"REAL_QID", b"REAL_QIX"),
    ],
)
def test_another_spelling_is_no_destination_of_ours(odd: bytes) -> None:
    """Such a record is read key by key; as a column it would get queue offsets of its own."""
    assert learn_destination(odd) is None
    assert known_destination(odd) is None


def test_remembered_destinations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit all are forgotten, and read once more."""
    monkeypatch.setattr(destination, "DESTINATION_COUNT_MAX", 1)
    first = text("Bounded1")
    assert learn_destination(first) is not None
    assert learn_destination(text("Bounded2")) is not None

    assert known_destination(first) is None
    assert known_destination(text("Bounded2")) is not None


def test_properties_may_name_it_anywhere() -> None:
    """RocketMQ's records have the keys in any order."""
    found = destination_in(b"REAL_QID\x01007\x02a\x01b\x02REAL_TOPIC\x01T\x02", 9)

    assert found.target == ("T", 7)


@pytest.mark.parametrize(
    ("properties", "reason", "words"),
    [
        (b"", Reason.NO_TOPIC, "expected REAL_TOPIC and a numeric REAL_QID, found none and none"),
        (b"REAL_TOPIC\x01T\x02", Reason.NO_TOPIC, "found 'T' and none"),
        (b"REAL_TOPIC\x01T\x02REAL_QID\x01x\x02", Reason.NO_TOPIC, "found 'T' and 'x'"),
        (b"REAL_QID\x011\x02", Reason.NO_TOPIC, "found none and '1'"),
        (
            b"REAL_TOPIC\x01rmq_sys_wheel_timer\x02REAL_QID\x011\x02",
            Reason.ILLEGAL_TOPIC,
            "the broker's own",
        ),
        (b"REAL_TOPIC\x01a/b\x02REAL_QID\x011\x02", Reason.ILLEGAL_TOPIC, "at 9: "),
    ],
)
def test_the_fault_says_what_is_missing(properties: bytes, reason: Reason, words: str) -> None:
    """A topic where no message can go is another fault than none: an operator may choose one."""
    with pytest.raises(TimerRecordError, match="timer record at 9") as fault:
        destination_in(properties, 9)

    assert fault.value.reason is reason
    assert words in str(fault.value)


def test_a_value_in_a_reason_is_short_and_plain() -> None:
    """Bytes that are no text are replaced, and a long value is cut."""
    assert (shown(None), shown(b"T"), shown(b"\xff")) == ("none", "'T'", "'\\ufffd'")
    assert len(shown(b"x" * 1000)) == 66
