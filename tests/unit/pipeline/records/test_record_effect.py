"""What a record does to its origin, decided once: the row form, and what is made of its table."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.cancel_mark import cancel_mark
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.delete_message import delete_message
from timermq.pipeline.records.record_effect import (
    EFFECTS,
    NOBODY,
    Effect,
    Mark,
    effect_of,
    effect_of_entry,
)
from timermq.pipeline.records.system_topics import QUARANTINE_TOPIC
from timermq.pipeline.records.timer_properties import DELETE
from timermq.pipeline.records.timer_record import TIMER_TOPIC, decode_timer, timer_tail
from timermq.pipeline.records.torn_move import takes_the_place
from timermq.repair.lost_record import lost_record
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record

OUT_MS = 1_700_000_010_000
TARGET_PY = 4096
FIRST = timer_tail(deliver_ms=OUT_MS + 7, out_ms=OUT_MS, topic="T", queue_id=3)
ROLLED = timer_tail(
    deliver_ms=OUT_MS + 7, out_ms=OUT_MS, topic="T", queue_id=3, rolls=2, order_py=100
)


def stored(message: Message) -> bytes:
    """The record of a message."""
    return encode_record(message, queue_offset=0, phy_offset=9_000, store_ms=5, store_host=bytes(8))


def timer(properties: bytes, queue_id: int = 0) -> bytes:
    """A record of the timer topic that names an origin."""
    origin = origin_of(TARGET_PY)
    return stored(Message(TIMER_TOPIC, queue_id, b"b", properties, prepared_offset=origin))


def written() -> dict[str, tuple[Effect, bytes]]:
    """What the timer service and a repair write, and what each does."""
    facts = decode_timer(timer(FIRST), TARGET_PY, 1000)
    lost = lost_record(TIMER_TOPIC, 0, 5, position=9_000, store_ms=OUT_MS, is_marked=True)
    return {
        "delivery": (Effect.DELIVERED, stored(Message("T", 3, b"b", b""))),
        "entry of the quarantine": (
            Effect.SET_ASIDE,
            stored(Message(QUARANTINE_TOPIC, 0, b"b", FIRST)),
        ),
        "mark": (Effect.LEFT_OUT, stored(cancel_mark(timer(FIRST), TARGET_PY, 5))),
        "move": (Effect.MOVED, timer(FIRST)),
        "roll": (Effect.ROLLED, timer(ROLLED)),
        "delete": (Effect.CANCELLED, stored(delete_message(facts, b"k", TARGET_PY, born_ms=5))),
        "delete that rolled": (Effect.ROLLED, timer(DELETE + b"k\x02" + ROLLED)),
        "in the place of a lost roll": (Effect.ROLLED, lost),
        "other queue of the timer topic": (Effect.DELIVERED, timer(FIRST, queue_id=1)),
    }


@pytest.mark.parametrize("name", written())
def test_what_is_written(name: str) -> None:
    """Each kind of record that names an origin does one thing to it."""
    effect, record = written()[name]
    found = read_log_record(record)

    assert effect is effect_of(found.topic, found.queue_id, found.properties)
    if found.topic == TIMER_TOPIC.encode() and found.queue_id == 0:
        assert effect is effect_of_entry(found.properties)


def test_what_takes_a_place() -> None:
    """Of the entries of the timer topic a message that was moved takes the place of its origin."""
    entries = {
        name: record
        for name, (_, record) in written().items()
        if (found := read_log_record(record)).topic == TIMER_TOPIC.encode() and not found.queue_id
    }

    assert ["move"] == [name for name, one in entries.items() if takes_the_place(one, TARGET_PY)]
    assert not takes_the_place(timer(FIRST), TARGET_PY + 1)


def test_a_delete_of_no_message_is_written_once() -> None:
    """The name in it is the one that a repair writes; no unique key is that short."""
    record = lost_record(TIMER_TOPIC, 0, 0, position=0, store_ms=OUT_MS, is_marked=False)

    assert DELETE + NOBODY + b"\x02" in record


def test_every_mark_decides_something() -> None:
    """All marks are in the table, in the order in which they are declared."""
    assert list(Mark) == list(EFFECTS)
