"""The record that cancels a message: what it names, and whose delete a producer's record is."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.delete_message import (
    delete_message,
    deleted_key,
    found_by_its_target,
)
from timermq.pipeline.records.timer_properties import DELETE_FOR_NAME, DELETE_NAME
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    decode_timer,
    deleted_name,
    order_name,
    timer_tail,
)
from timermq.timerstore.message import Message
from timermq.timerstore.properties import KEYS_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import encode_record, record_properties

OUT_MS = 1_700_000_010_000
FIRST_PY, ROLLED_PY = 100, 4_096


def stored(message: Message) -> bytes:
    """The record of a message at the place of the rolled one."""
    return encode_record(
        message, queue_offset=0, phy_offset=ROLLED_PY, store_ms=5, store_host=bytes(8)
    )


def facts() -> TimerFacts:
    """Of a message that was rolled once."""
    tail = timer_tail(
        deliver_ms=OUT_MS + 7, out_ms=OUT_MS, topic="T", queue_id=3, rolls=1, order_py=FIRST_PY
    )
    return decode_timer(stored(Message(TIMER_TOPIC, 0, b"b", tail)), ROLLED_PY, 1_000)


def test_a_delete_waits_in_the_slot_of_its_message() -> None:
    """It names the first record, which rolls keep; its origin is the record that it ends."""
    record = stored(delete_message(facts(), b"k", ROLLED_PY, born_ms=5))
    found = decode_timer(record, ROLLED_PY, 1_000)

    assert (found.out_ms, found.is_delete, found.rolls) == (OUT_MS, True, 0)
    assert found.destination.target == ("T", 3)
    assert deleted_name(record_properties(record)) == order_name(FIRST_PY)
    assert find(record_properties(record), UNIQ_KEY_NAME) == b"k"
    assert origin_in(record) == ROLLED_PY


def test_a_delete_that_makes_way_leaves_the_origin_to_its_message() -> None:
    """Alone behind a power cut it must count as nothing, so it only says for which place."""
    message = delete_message(facts(), b"k", ROLLED_PY, born_ms=5, makes_way_in_ms=OUT_MS + 1_000)
    record = stored(message)

    assert origin_in(record) is None
    assert find(record_properties(record), DELETE_FOR_NAME) == b"%d" % ROLLED_PY


@pytest.mark.parametrize(
    ("makes_way_in_ms", "has_own_key", "name"),
    [
        (None, True, b"k"),
        (OUT_MS + 1_000, False, b"k"),
        (OUT_MS, True, b"k"),
        (OUT_MS, False, b"k#moved"),
    ],
    ids=["cancelled", "to another slot", "within its slot", "within its slot with its key"],
)
def test_the_names_for_rocketmq(
    makes_way_in_ms: int | None, name: bytes, *, has_own_key: bool
) -> None:
    """A replacement with the same key in the same slot would go as well."""
    names = [
        find(
            delete_message(
                facts(),
                b"k",
                ROLLED_PY,
                born_ms=5,
                makes_way_in_ms=makes_way_in_ms,
                has_own_key=has_own_key,
                is_second=is_second,
            ).properties,
            DELETE_NAME,
        )
        for is_second in (False, True)
    ]

    assert names == [b"T+" + name, name]


def test_the_second_delete_says_what_the_first_does() -> None:
    """It has its name for us, and leaves the origin and the place to the first."""
    message = delete_message(
        facts(),
        b"k",
        ROLLED_PY,
        born_ms=5,
        makes_way_in_ms=OUT_MS,
        notes=b"N\x011\x02",
        is_second=True,
    )
    record = stored(message)
    found = decode_timer(record, ROLLED_PY, 1_000)

    assert (found.out_ms, found.is_delete, found.is_second) == (OUT_MS, True, True)
    assert deleted_name(record_properties(record)) == order_name(FIRST_PY)
    assert origin_in(record) is None
    assert find(record_properties(record), DELETE_FOR_NAME) is None
    assert find(record_properties(record), b"N") is None


def test_deletes_of_a_moved_message_are_found_by_both_of_its_keys() -> None:
    """By the one in its record and by the one before."""
    message = delete_message(facts(), b"k#moved7", ROLLED_PY, born_ms=5, keys=[b"order"])

    assert find(message.properties, UNIQ_KEY_NAME) == b"k#moved7"
    assert find(message.properties, KEYS_NAME) == b"order k"


@pytest.mark.parametrize(
    ("name", "key"), [(b"k", b"k"), (b"T+k", b"k"), (b"T+a+b", b"a+b"), (b"U+k", None)]
)
def test_a_delete_is_for_a_message_of_its_topic(name: bytes, key: bytes | None) -> None:
    """With the topic before the key or without; a key of another topic names no message."""
    assert deleted_key(b"T", name) == key


def test_a_delete_is_found_by_the_key_of_its_message() -> None:
    """Its own unique key moves among its keys, behind those that it has."""
    properties = b"KEYS\x01order\x02UNIQ_KEY\x01own\x02"
    found = found_by_its_target(properties, b"k")

    assert find(found, UNIQ_KEY_NAME) == b"k"
    assert find(found, KEYS_NAME) == b"order own"
    assert found_by_its_target(b"", b"k") == b"UNIQ_KEY\x01k\x02"
    assert found_by_its_target(found, b"k") == found
