"""Records that take the place of lost ones."""

from __future__ import annotations

import pytest

from timermq.repair.lost_record import blank, lost_record, lost_size
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_check import CheckKind, check_record

TIMER_TOPIC = "rmq_sys_wheel_timer"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def lost(topic: str, *, is_marked: bool = True, body_size: int = 0) -> bytes:
    """A record for queue 3, offset 9, at position 77."""
    return lost_record(
        topic, 3, 9, position=77, store_ms=12_345, is_marked=is_marked, body_size=body_size
    )


@pytest.mark.parametrize("topic", ["T", TIMER_TOPIC, SCHEDULE_TOPIC, "%RETRY%" + "g" * 200])
def test_it_stands_in_the_place_of_the_lost_one(topic: str) -> None:
    """A good record of that queue and offset, with its mark."""
    data = lost(topic)
    record = decode_record(data)

    assert check_record(data, 0, len(data), 77, check_crc=True).kind is CheckKind.RECORD
    assert (record.topic, record.queue_id, record.queue_offset) == (topic, 3, 9)
    assert record.properties_dict()["TIMERMQ_LOST"] == "1"
    assert len(data) == lost_size(topic)


def test_without_room_for_the_mark_there_are_no_properties() -> None:
    """A body of zeros fills up what is too small for a filler."""
    record = decode_record(lost("T", is_marked=False, body_size=5))

    assert (record.properties, record.body) == (b"", bytes(5))


def test_one_of_the_timer_topic_is_a_delete_that_was_due() -> None:
    """It goes to no topic of a client, at the full second before its store time."""
    properties = decode_record(lost(TIMER_TOPIC)).properties_dict()

    assert "TIMER_DEL_UNIQKEY" in properties
    assert properties["REAL_TOPIC"] == "rmq_sys_hole"
    assert int(properties["TIMER_OUT_MS"]) == 12_000


def test_one_of_a_delay_level_goes_to_the_topic_of_holes() -> None:
    """No delete: delay levels have none."""
    properties = decode_record(lost(SCHEDULE_TOPIC)).properties_dict()

    assert properties["REAL_TOPIC"] == "rmq_sys_hole"
    assert "TIMER_DEL_UNIQKEY" not in properties


def test_a_blank_says_what_it_covers() -> None:
    """It is read as the end of the segment."""
    data = blank(300)

    assert len(data) == 8
    view = data + bytes(292)
    assert check_record(view, 0, 300, 0, check_crc=True).kind is CheckKind.BLANK
