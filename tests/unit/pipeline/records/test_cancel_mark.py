"""Cancel marks, and the names by which a delete and its message find each other."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.cancel_mark import (
    cancel_mark,
    name_in_delete,
    names_in_delete,
    names_of,
)
from timermq.pipeline.records.deduplication import origin_in, origin_of
from timermq.pipeline.records.system_topics import CANCEL_MARK_TOPIC
from timermq.pipeline.records.timer_properties import (
    DELETE,
    DELETE_FOR,
    DELETE_ORDER,
    DEQUEUE,
)
from timermq.pipeline.records.timer_properties import (
    ORDER as TIMER_ORDER,
)
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    order_name,
    position_name,
    timer_tail,
)
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record

OUT_MS = 1_700_000_010_000
PLACE = 4_096
ORDER = 100
"""Position of the first record of the message."""
BROKEN = b"\0" * 40
"""Too short for a record: its properties cannot be read."""


def stored(message: Message) -> bytes:
    """The record of a message."""
    return encode_record(message, queue_offset=0, phy_offset=PLACE, store_ms=5, store_host=bytes(8))


def timer(
    properties: bytes, *, topic: str = "T", out_ms: int = OUT_MS, origin_py: int | None = None
) -> bytes:
    """A record of the timer topic."""
    tail = timer_tail(deliver_ms=out_ms + 1, out_ms=out_ms, topic=topic, queue_id=0)
    origin = 0 if origin_py is None else origin_of(origin_py)
    return stored(Message(TIMER_TOPIC, 0, b"b", properties + tail, prepared_offset=origin))


MESSAGE = timer(b"UNIQ_KEY\x01k\x02")


def test_a_mark_names_its_record_and_has_the_key_of_it() -> None:
    """So recovery counts the record as done, and a look-up by the key meets the mark."""
    mark = cancel_mark(MESSAGE, PLACE, 5)

    assert (mark.topic, mark.queue_id, mark.properties) == (
        CANCEL_MARK_TOPIC,
        0,
        b"UNIQ_KEY\x01k\x02",
    )
    assert origin_in(stored(mark)) == PLACE


@pytest.mark.parametrize("record", [BROKEN, timer(b"")], ids=["damaged", "without a key"])
def test_a_mark_is_made_without_a_key(record: bytes) -> None:
    """What cannot be read, or has no unique key, is ended all the same."""
    mark = cancel_mark(record, PLACE, 5)

    assert mark.properties == b""
    assert origin_in(stored(mark)) == PLACE


@pytest.mark.parametrize("name", [b"k", b"T+k"])
@pytest.mark.parametrize(
    ("topic", "out_ms", "is_meant"),
    [("T", OUT_MS, True), ("U", OUT_MS, False), ("T", OUT_MS + 1_000, False)],
    ids=["its own", "another topic", "another slot"],
)
def test_a_delete_by_key_means_a_message_of_its_topic_and_slot(
    name: bytes, topic: str, out_ms: int, *, is_meant: bool
) -> None:
    """The key with the topic before it or without: RocketMQ writes either."""
    delete = timer(DELETE + name + b"\x02", topic=topic, out_ms=out_ms)

    assert (name_in_delete(delete) in names_of(MESSAGE, ORDER)) is is_meant


def test_a_delete_by_order_means_one_message_wherever_it_is_pending() -> None:
    """The key beside the order says nothing, nor does the slot: rolls of a message keep its order.

    Of two messages with one key the other is not meant.
    """
    delete = timer(b"%bT+k\x02%b%d\x02" % (DELETE, DELETE_ORDER, ORDER), out_ms=OUT_MS + 9_000)

    assert name_in_delete(delete) in names_of(MESSAGE, ORDER)
    assert name_in_delete(delete) not in names_of(MESSAGE, ORDER + 1)


def test_the_order_is_left_of_a_damaged_message() -> None:
    """Without its properties no delete by key can mean it for certain."""
    assert names_of(BROKEN, ORDER) == {order_name(ORDER)}
    assert names_of(timer(b""), ORDER) == {order_name(ORDER)}


def test_a_delete_names_the_record_that_it_ends() -> None:
    """By its origin; one that makes way has none, and says the place. RocketMQ's names none."""
    ordered = b"%bT+k\x02%b%d\x02" % (DELETE, DELETE_ORDER, ORDER)
    makes_way = timer(ordered + b"%b%d\x02" % (DELETE_FOR, PLACE))
    names = {order_name(ORDER), position_name(PLACE)}

    assert names_in_delete(timer(ordered, origin_py=PLACE)) == names
    assert names_in_delete(makes_way) == names
    by_key = timer(DELETE + b"k\x02")
    assert names_in_delete(by_key) == {name_in_delete(by_key)}


def test_a_delete_that_rocketmq_rolled_means_a_message_by_its_key() -> None:
    """RocketMQ has rolled the message as well, whose copy has another order.

    Not one whose rolls keep the order, nor one of a move: the moved message has the key as well.
    """
    ordered = b"%bk\x02%b%d\x02%b7\x02" % (DELETE, DELETE_ORDER, ORDER, DEQUEUE)
    rolled = timer(b"%bk\x02" % DELETE)

    assert name_in_delete(timer(ordered)) == name_in_delete(rolled)
    for kept in (b"%b%d\x02" % (TIMER_ORDER, ORDER), b"%b%d\x02" % (DELETE_FOR, PLACE)):
        assert name_in_delete(timer(ordered + kept)) == order_name(ORDER)
