"""Marks: what says of a cancelled message that it was left out when its slot was read.

A delete takes effect where its slot is read: the message is left out, and nothing is delivered.
After that nothing but the delete would tell that the message is done. The two may be parted: each
is rolled by itself, so the delete may stand in an older segment of the log than the message, or its
unit before a place where the timer log is cut. A recovery that begins anywhere would then take the
message for one that still waits.

So each record of the timer topic is ended by a record that names it as its origin: a delivery, a
roll, an entry of the quarantine, a cancel, or such a mark. It stands behind the record that it
ends, so cleaning cannot remove it before that one. No mark is needed where the delete itself, or
the message that it makes way for, has the record as its origin.
"""

from __future__ import annotations

from timermq.timerstore.message import Message
from timermq.timerstore.moved_key import key_properties
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import RecordError, record_properties

from .deduplication import origin_in, origin_of
from .system_topics import CANCEL_MARK_TOPIC
from .timer_properties import DELETE_FOR_NAME
from .timer_record import (
    deleted_name,
    deleted_order,
    key_names,
    name_in_slot,
    order_name,
    position_name,
)


def cancel_mark(record: bytes, phy_offset: int, now_ms: int) -> Message:
    """The mark for a record of the timer topic.

    Args:
        record: The record that was left out; one that cannot be read gets a mark all the same.
        phy_offset: Its position in the commit log.
        now_ms: The present, epoch milliseconds.
    """
    try:
        unique_key = find(record_properties(record), UNIQ_KEY_NAME)
    except RecordError:
        unique_key = None
    properties = b"" if unique_key is None else key_properties(unique_key)
    return Message(
        CANCEL_MARK_TOPIC,
        0,
        b"",
        properties,
        born_ms=now_ms,
        prepared_offset=origin_of(phy_offset),
    )


def name_in_delete(record: bytes) -> bytes:
    """Which message a delete means: its order, or a key of a slot. Rolls of a delete keep it.

    Raises:
        RecordError: The record has no properties that could be read.
    """
    properties = record_properties(record)
    name = deleted_name(properties) or b""
    if deleted_order(properties) is None:
        return name_in_slot(properties, name)
    return name


def names_of(record: bytes, order_py: int) -> set[bytes]:
    """How a delete can name a message: by its order, by its key with its topic and without.

    Args:
        record: As far as it can be read.
        order_py: Position of the message's first record.
    """
    names = {order_name(order_py)}
    try:
        properties = record_properties(record)
    except RecordError:
        return names
    unique_key = find(properties, UNIQ_KEY_NAME)
    if unique_key is None:
        return names
    topic = find(properties, REAL_TOPIC_NAME) or b""
    return names | {name_in_slot(properties, name) for name in key_names(topic, unique_key)}


def names_in_delete(record: bytes) -> set[bytes]:
    """The names in a delete: of a message, and of the one record that it ends by itself.

    Raises:
        RecordError: The record has no properties that could be read.
    """
    names = {name_in_delete(record)}
    properties = record_properties(record)
    target_py = number_in(find(properties, DELETE_FOR_NAME))
    if target_py is None:
        target_py = origin_in(record)
    return names if target_py is None else {*names, position_name(target_py)}
