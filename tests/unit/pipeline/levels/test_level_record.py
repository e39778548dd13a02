"""Records of classic levels: the message that comes out, and how RocketMQ's delivery is known."""

from __future__ import annotations

import pytest

from left_levels import delivered, waiting
from simulation.staged_service import HOST
from timermq.pipeline.levels.level_record import delivered_name, left_message, waiting_name
from timermq.pipeline.records.timer_record import TimerRecordError
from timermq.pipeline.records.undeliverable import Reason
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record

PHY_OFFSET = 4_096


def record_of(message: Message, store_ms: int = 7) -> bytes:
    """The record of the message, as the log has it."""
    return encode_record(
        message, queue_offset=3, phy_offset=PHY_OFFSET, store_ms=store_ms, store_host=HOST
    )


def message_of(message: Message) -> Message:
    """What becomes of its record."""
    record = record_of(message)
    return left_message(record, PHY_OFFSET, len(record))


def test_message() -> None:
    """Real topic and queue; the producer's properties and the level; the record as its origin."""
    found = message_of(waiting("x", 3, topic="%RETRY%G", queue_id=2))

    assert ("%RETRY%G", 2, b"x") == (found.topic, found.queue_id, found.body)
    assert b"UNIQ_KEY\x01x\x02DELAY\x013\x02TAGS\x01a\x02" == found.properties
    assert -1 - PHY_OFFSET == found.prepared_offset


def test_what_steers_timers_is_gone() -> None:
    """Of a message that was a timer once, or that also asked to take another one back."""
    text = (
        b"A\x01b\x02TIMER_DEL_UNIQKEY\x01T+U\x02TIMER_OUT_MS\x015000\x02TIMER_ENQUEUE_MS\x011\x02"
        b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02DELAY\x011\x02"
    )
    found = message_of(Message("SCHEDULE_TOPIC_XXXX", 0, b"x", text))

    assert b"A\x01b\x02DELAY\x011\x02" == found.properties


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"DELAY\x011\x02", Reason.NO_TOPIC),
        (b"REAL_TOPIC\x01T\x02REAL_QID\x01x\x02", Reason.NO_TOPIC),
        (b"REAL_TOPIC\x01no topic\x02REAL_QID\x010\x02", Reason.ILLEGAL_TOPIC),
        (b"REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010\x02", Reason.ILLEGAL_TOPIC),
        (b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02", Reason.ILLEGAL_TOPIC),
    ],
)
def test_nowhere_to_go(text: bytes, reason: Reason) -> None:
    """Where it says nothing that can be, the reason is given."""
    with pytest.raises(TimerRecordError) as caught:
        message_of(Message("SCHEDULE_TOPIC_XXXX", 0, b"x", text))

    assert reason is caught.value.reason


def test_damaged_and_gone() -> None:
    """A body that changed, a record that the log does not have."""
    record = record_of(waiting("hello", 1))
    reasons: list[Reason] = []
    for found in (record.replace(b"hello", b"hullo"), None):
        with pytest.raises(TimerRecordError) as caught:
            left_message(found, PHY_OFFSET, len(record))
        reasons.append(caught.value.reason)

    assert [Reason.CHECKSUM, Reason.GONE] == reasons


def test_delivery_is_known() -> None:
    """By level, destination and key, whenever it is stored; nothing else has that name."""
    name = waiting_name(record_of(waiting("x", 3)))
    others = [
        delivered("x", 4),
        delivered("y", 3),
        delivered("x", 3, topic="U"),
        delivered("x", 3, queue_id=1),
    ]

    assert name == delivered_name(record_of(delivered("x", 3), store_ms=99))
    assert {name}.isdisjoint(delivered_name(record_of(one)) for one in others)
    assert [None, None] == [
        delivered_name(record_of(one))
        for one in (waiting("x", 3), Message("T", 0, b"x", b"UNIQ_KEY\x01x\x02DELAY\x013\x02"))
    ]
