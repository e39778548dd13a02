"""A record that waits for a classic level: the message it becomes, and how its delivery is known.

What RocketMQ delivers of a level names no origin, but keeps the properties of the waiting record:
real topic and queue, level, unique key. With born time and checksum they tell whether a message of
a level queue has been delivered, where the offsets do not (they are up to ten seconds old).

Source: Java ``DeliverDelayedMessageTimerTask.messageTimeUp``.
"""

from __future__ import annotations

import hashlib

from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message import Message
from timermq.timerstore.properties import (
    DELAY,
    DELAY_NAME,
    REAL_QID_NAME,
    REAL_TOPIC_NAME,
    UNIQ_KEY_NAME,
    find,
)
from timermq.timerstore.record import record_properties, record_topic
from timermq.timerstore.record_layout import BORN_MS_AT, HEADS, V6_BITS, V6_FLAGS_AT

from ..quarantine.retried_message import check_intact
from ..records.deduplication import origin_of
from ..records.delivered_message import taken_over
from ..records.destination import destination_in
from ..records.timer_properties import DELETE, DELETE_NAME
from ..records.timer_record import TimerRecordError, own_properties
from ..records.undeliverable import Reason

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""The topic in which a transaction waits for its end."""


def left_message(record: bytes | None, phy_offset: int, size: int) -> Message:
    """The message of a waiting record, for its real topic, with the record as its origin.

    Args:
        record: The record, as far as it can be read.
        phy_offset: Its position in the commit log.
        size: Bytes that it should have.

    Raises:
        TimerRecordError: It is gone or damaged, or names nowhere to go.
    """
    check_intact(record or b"", phy_offset, size)
    assert record is not None
    properties = record_properties(record)
    destination = destination_in(properties, phy_offset)
    if destination.topic == HALF_TOPIC:
        # Of a transaction with a delay RocketMQ loses the real topic, and in the end the message.
        text = f"record at {phy_offset}: a half message that was delayed has lost its real topic"
        raise TimerRecordError(Reason.ILLEGAL_TOPIC, text)
    own = own_properties(properties)
    if find(own, DELETE_NAME) is not None:
        # A level wins: RocketMQ delivers the message, and nothing is cancelled.
        items = (item for item in own.split(b"\x02") if item and not item.startswith(DELETE))
        own = b"".join(item + b"\x02" for item in items)
    return taken_over(
        record,
        topic=destination.topic,
        queue_id=destination.queue_id,
        properties=own,
        origin=origin_of(phy_offset),
    )


def moment_of(moment_ms: int, record: bytes) -> int:
    """When a pending message is due: the moment in its queue, but not before it was stored."""
    return max(moment_ms, store_ms_of(record))


def born_ms_of(record: bytes) -> int:
    """When its producer made it, which is a part of its name; epoch milliseconds."""
    return int.from_bytes(record[BORN_MS_AT : BORN_MS_AT + 8], signed=True)


def waiting_name(record: bytes) -> bytes:
    """The name of a pending message, by which its delivery is known; of 16 bytes."""
    properties = record_properties(record)
    return _name(record, properties, find(properties, REAL_TOPIC_NAME) or b"")


def delivered_name(record: bytes) -> bytes | None:
    """The name of the pending message that RocketMQ delivered by this record; None if it is none.

    What is delivered from the wheel keeps no real topic here.
    """
    properties = record_properties(record)
    if DELAY not in properties:
        return None
    topic = record_topic(record)
    return _name(record, properties, topic) if find(properties, REAL_TOPIC_NAME) == topic else None


def _name(record: bytes, properties: bytes, topic: bytes) -> bytes:
    _, _, crc, _, flag, _, _, _, born_ms, _, _, _, reconsume_times, _, _ = HEADS[
        record[V6_FLAGS_AT] & V6_BITS
    ].unpack_from(record)
    texts = [find(properties, key) or b"" for key in (REAL_QID_NAME, DELAY_NAME, UNIQ_KEY_NAME)]
    numbers = b"%d %d %d %d" % (crc, flag, born_ms, reconsume_times)
    return hashlib.blake2b(b"\0".join((topic, *texts, numbers)), digest_size=16).digest()
