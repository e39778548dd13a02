"""From an entry of the quarantine to the message that is admitted once more."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from timermq.pipeline.quarantine.quarantine_record import Entry
from timermq.pipeline.quarantine.retried_message import check_intact, retried_message
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError
from timermq.timerstore.message import Message
from timermq.timerstore.properties import parse
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_layout import BODY_AT

OUT_MS = 1_700_000_010_000
PLACE = 4_096
OWN = b"UNIQ_KEY\x01k\x02KEYS\x01order\x02"


def stored(properties: bytes) -> bytes:
    """A record of the timer topic at its place."""
    return encode_record(
        Message(TIMER_TOPIC, 0, b"body", properties, flag=7, reconsume_times=2),
        queue_offset=0,
        phy_offset=PLACE,
        store_ms=1,
        store_host=bytes(8),
    )


TAIL = timer_tail(deliver_ms=OUT_MS + 7, out_ms=OUT_MS, topic="T", queue_id=3)
RECORD = stored(OWN + TAIL)


def entry(record: bytes = RECORD, **changes: Any) -> Entry:  # noqa: ANN401 - passed on
    """An entry of a message for queue 3 of topic T."""
    one = Entry(
        origin_py=PLACE,
        reason="refused",
        text="",
        set_aside_ms=1,
        size=len(record),
        record=record,
        topic="T",
        queue_id=3,
        deliver_ms=OUT_MS + 7,
        unique_id="k",
        keys="order",
        tags="",
    )
    return attrs.evolve(one, **changes)


def retried(one: Entry, topic: str | None = None, queue_id: int | None = None) -> Message:
    """The message of an entry."""
    return retried_message(one, topic=topic, queue_id=queue_id, precision_ms=1_000)


def test_it_is_as_its_producer_has_sent_it() -> None:
    """Body, flags and own properties stay; its moment is asked for again, and its origin named."""
    message = retried(entry())

    assert (message.topic, message.queue_id, message.body) == ("T", 3, b"body")
    assert (message.flag, message.reconsume_times) == (7, 2)
    assert parse(message.properties) == {
        "UNIQ_KEY": "k",
        "KEYS": "order",
        "TIMER_DELIVER_MS": str(OUT_MS + 7),
    }
    assert message.prepared_offset == origin_of(PLACE)


@pytest.mark.parametrize(
    ("topic", "queue_id", "expected"),
    [(None, None, ("T", 3)), ("U", None, ("U", 3)), (None, 0, ("T", 0)), ("U", 5, ("U", 5))],
)
def test_an_operator_may_choose_where_it_goes(
    topic: str | None, queue_id: int | None, expected: tuple[str, int]
) -> None:
    """Queue 0 is a choice too; without one it goes where it asked to go."""
    message = retried(entry(), topic, queue_id)

    assert (message.topic, message.queue_id) == expected


def test_one_without_a_queue_goes_to_the_first() -> None:
    """It names none that a message could go to."""
    assert retried(entry(queue_id=None)).queue_id == 0


def test_a_moment_that_its_record_does_not_tell_is_late_rather_than_early() -> None:
    """The entry knows the slot, whose width is added; without a slot it goes at once."""
    bare = stored(OWN + b"REAL_TOPIC\x01T\x02REAL_QID\x013\x02")
    known = parse(retried(entry(bare, deliver_ms=OUT_MS)).properties)
    unknown = parse(retried(entry(bare, deliver_ms=None)).properties)

    assert known["TIMER_DELIVER_MS"] == str(OUT_MS + 1_000)
    assert "TIMER_DELIVER_MS" not in unknown


@pytest.mark.parametrize(
    ("one", "topic", "reason"),
    [
        (entry(stored(b"TIMER_DEL_UNIQKEY\x01T+k\x02" + TAIL)), None, Reason.PROPERTIES),
        (entry(topic=None), None, Reason.NO_TOPIC),
        (entry(), TIMER_TOPIC, Reason.ILLEGAL_TOPIC),
        (entry(), "a/b", Reason.ILLEGAL_TOPIC),
        (entry(record=b"", size=100), "U", Reason.GONE),
        (entry(RECORD[:-1], size=len(RECORD)), None, Reason.DAMAGED),
    ],
)
def test_what_can_go_nowhere_stays(one: Entry, topic: str | None, reason: Reason) -> None:
    """A delete of another message could only do harm later."""
    with pytest.raises(TimerRecordError) as fault:
        retried(one, topic)

    assert fault.value.reason is reason


def test_a_changed_body_is_told_from_a_changed_head() -> None:
    """Of the first the rest can be believed: an operator sees keys and topic."""
    for at, reason in ((BODY_AT, Reason.CHECKSUM), (4, Reason.DAMAGED)):
        changed = bytearray(RECORD)
        changed[at] ^= 0x40
        with pytest.raises(TimerRecordError) as fault:
            check_intact(bytes(changed), PLACE, len(RECORD))
        assert fault.value.reason is reason
    check_intact(RECORD, PLACE, len(RECORD))
