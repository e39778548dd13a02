"""Tests of the marks of half messages that are done."""

from __future__ import annotations

from timermq.broker.transactions.op_message import (
    Ending,
    Mark,
    is_all_marked,
    offsets_in,
    op_message,
)
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.properties import parse
from timermq.timerstore.record import encode_record
from transaction_rig import OP_TOPIC

HOST = pack_host("127.0.0.1", 10_911)


def stored(message: Message) -> bytes:
    """The record of the message in the log."""
    return encode_record(message, queue_offset=0, phy_offset=0, store_ms=0, store_host=HOST)


def test_as_java_writes_them() -> None:
    """Tag d, and each offset followed by a comma."""
    message = op_message(Mark(ending=Ending.RENEWED, offsets=(12, 15)), 5)

    assert (message.topic, message.queue_id, message.body, message.born_ms) == (
        OP_TOPIC,
        0,
        b"12,15,",
        5,
    )
    assert parse(message.properties) == {"TAGS": "d", "TIMERMQ_END": "renewed,"}


def test_a_late_mark_leaves_others_to_be_made() -> None:
    """Only one that is in time says that everything before it is marked."""
    mark = Mark(ending=Ending.COMMIT, offsets=(1,), name=7, unique_key="K0")
    late, last = (op_message(mark, 0, is_late=is_late) for is_late in (True, False))

    assert parse(late.properties) == {"TAGS": "d", "UNIQ_KEY": "K0", "TIMERMQ_END": "commit,7,late"}
    assert [is_all_marked(stored(one)) for one in (late, last)] == [False, True]
    assert not is_all_marked(stored(Message(OP_TOPIC, 0, b"1,", b"TAGS\x01d\x02")))


def test_those_of_java_are_read() -> None:
    """With and without a last comma; what has another tag, or is no number, says nothing."""
    bodies = {b"7": "d", b"7,8,": "d", b"7,x,-1,8": "d", b"9,": "e"}
    found = [
        offsets_in(
            stored(Message(OP_TOPIC, 0, body, f"TAGS\x01{tag}\x02".encode(), born_host=HOST))
        )
        for body, tag in bodies.items()
    ]

    assert found == [[7], [7, 8], [7, 8], []]
