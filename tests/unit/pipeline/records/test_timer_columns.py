"""Timer records as columns: a run of ours that was never rolled, or none at all."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.timer_columns import COMPARED_MAX, TimerColumns, read_columns
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_block import RecordBlock

SLOT_MS = 1_700_000_000_000


def record(
    topic: str = "T",
    ahead_ms: int = 1,
    *,
    slot_ms: int = SLOT_MS,
    rolls: int = 0,
    order_py: int = 0,
) -> bytes:
    """A record of a message for queue 3 that is due so long behind the start of its slot."""
    end = timer_tail(
        deliver_ms=slot_ms + ahead_ms,
        out_ms=slot_ms,
        topic=topic,
        queue_id=3,
        rolls=rolls,
        order_py=order_py,
    )
    return stored(b"UNIQ_KEY\x01K\x02" + end)


def stored(properties: bytes) -> bytes:
    """A record of the timer topic."""
    return encode_record(
        Message(TIMER_TOPIC, 0, b"body", properties),
        queue_offset=0,
        phy_offset=0,
        store_ms=1,
        store_host=bytes(8),
    )


def columns(*records: bytes, precision_ms: int = 1_000) -> TimerColumns | None:
    """What is read of some records."""
    return read_columns(RecordBlock.of(records), precision_ms)


def test_a_run_tells_destinations_and_moments() -> None:
    """The end of each is where the properties begin that its delivery does not keep."""
    records = [record("A", 1), record("B", 1_000), record("A", 345)]
    found = columns(*records)
    assert found is not None

    assert [found.destinations[int(one)].topic for one in found.destination_of.tolist()] == [
        "A",
        "B",
        "A",
    ]
    assert found.by_topic() == {"A": 2, "B": 1}
    assert found.deliver_ms.tolist() == [SLOT_MS + 1, SLOT_MS + 1_000, SLOT_MS + 345]
    assert found.out_ms.tolist() == [SLOT_MS] * 3
    block = RecordBlock.of(records)
    assert [block.data[end : end + 10] for end in found.ends.tolist()] == [b"REAL_TOPIC"] * 3


def test_more_destinations_than_are_compared_at_once_are_found_too() -> None:
    """One by one, with the same numbers for the same destination."""
    topics = [f"T{number}" for number in range(COMPARED_MAX + 3)] * 2
    found = columns(*map(record, topics))
    assert found is not None

    assert [found.destinations[int(one)].topic for one in found.destination_of.tolist()] == topics
    assert len(found.destinations) == COMPARED_MAX + 3


@pytest.mark.parametrize(
    "odd",
    [
        record(ahead_ms=0),
        record(ahead_ms=1_001),
        record(ahead_ms=-5),
        record(slot_ms=SLOT_MS + 1),
        record(rolls=2, order_py=77),
        record(TIMER_TOPIC),
        stored(b""),
        stored(b"REAL_TOPIC\x01T\x02REAL_QID\x013\x02TIMER_OUT_MS\x01%d\x02" % SLOT_MS),
        record().replace(b"TIMER_DELIVER_MS\x011", b"TIMER_DELIVER_MS\x01+"),
        record().replace(b"TIMER_OUT_MS\x011", b"TIMER_OUT_MS\x01 "),
        record().replace(b"TIMER_DELIVER_MS", b"TIMER_DELIVER_MX"),
    ],
    ids=[
        *("no delay", "beyond its slot", "before its slot", "between slots", "rolled"),
        *("the wheel's own topic", "no properties", "no moment", "a sign", "a blank", "a name"),
    ],
)
def test_one_odd_record_makes_the_batch_no_run(odd: bytes) -> None:
    """It is read by itself then, and its fault is told."""
    assert columns(record(), odd) is None
    assert columns(odd) is None


def test_a_finer_wheel_has_narrower_slots() -> None:
    """The width of a slot decides what is due in it."""
    assert columns(record(ahead_ms=100), precision_ms=100) is not None
    assert columns(record(ahead_ms=101), precision_ms=100) is None
