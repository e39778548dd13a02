"""What RocksDB timers did, told by records: each of their traces, and in which order they count."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.pipeline.records.timeline import Timeline, Trace, trace_in
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from unit.pipeline.records.test_deduplication import record_of

OUT = "TIMER_OUT_MS=1700000010000"
WAITS = ("REAL_TOPIC=T", "REAL_QID=0", "UNIQ_KEY=K", OUT)


def waiting(*more: str) -> bytes:
    """A record of the timer topic for topic T and unique key K, with more properties."""
    return record_of(*WAITS, *more, topic=TIMER_TOPIC)


PUT = waiting()
ROLL = waiting("TIMER_ROLL_LABEL=R")
DELETE = waiting("TIMER_DEL_UNIQKEY=K")
DELETE_WITH_TOPIC = waiting("TIMER_DEL_UNIQKEY=T+K")
DELIVERY = record_of("UNIQ_KEY=K", OUT)


@pytest.mark.parametrize(
    ("record", "trace"),
    [
        (PUT, Trace.PUT),
        (ROLL, Trace.ROLL),
        (DELETE, Trace.DELETE),
        (DELETE_WITH_TOPIC, Trace.DELETE),
        (DELIVERY, Trace.DELIVERY),
        (record_of("UNIQ_KEY=K", OUT, "MY_REAL_TOPIC=x"), Trace.DELIVERY),
        (waiting("MY_TIMER_ROLL_LABEL=R"), Trace.PUT),
    ],
)
def test_traces(record: bytes, trace: Trace) -> None:
    """All of them are about the same key."""
    key = trace_in(PUT)
    assert key is not None

    assert (trace, key[1]) == trace_in(record)


@pytest.mark.parametrize(
    "record",
    [
        record_of("UNIQ_KEY=K"),
        record_of("UNIQ_KEY=K", "MY_TIMER_OUT_MS=1700000010000"),
        record_of(OUT),
        record_of(*WAITS, "TIMER_DEQUEUE_MS=1700000010500"),
        waiting("TIMER_DEL_UNIQKEY=U+K"),
        waiting("TIMER_DEL_UNIQKEY=T+K", "TIMER_DEL_ORDER=5"),
    ],
    ids=["plain", "of a user", "no key", "of the wheel", "of another topic", "ours"],
)
def test_no_traces(record: bytes) -> None:
    """The wheel's deliveries are known otherwise, our deletes name what they cancel."""
    assert trace_in(record) is None


@pytest.mark.parametrize(
    "other",
    [
        record_of("UNIQ_KEY=L", OUT),
        record_of("UNIQ_KEY=K", OUT, topic="U"),
        record_of("UNIQ_KEY=K", "TIMER_OUT_MS=1700000011000"),
        record_of("UNIQ_KEY=K", OUT, topic="%RETRY%G"),
    ],
    ids=["key", "topic", "slot", "sent back"],
)
def test_other_keys(other: bytes) -> None:
    """A delivery with another key, topic or slot says nothing of a timer."""
    assert [] == done(PUT, other)


def done(*records: bytes, enqueued: tuple[int, ...] = (), overwrites: bool = False) -> list[int]:
    """Which of the records are done, by their place in the log."""
    timeline = Timeline()
    for at, record in enumerate(records):
        timeline.add(at, record)
    found = timeline.done(np.array(enqueued, np.int64), overwrites=overwrites)
    return [int(at) for at in found]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((), []),
        ((PUT,), []),
        ((PUT, DELIVERY), [0]),
        ((PUT, DELIVERY, DELIVERY), [0]),
        ((DELIVERY, PUT), []),
        ((PUT, DELETE), [0]),
        ((PUT, DELETE_WITH_TOPIC), [0]),
        ((PUT, DELETE, DELETE_WITH_TOPIC), [0]),
        ((PUT, ROLL), [0]),
        ((PUT, ROLL, ROLL), [0, 1]),
        ((PUT, ROLL, ROLL, DELIVERY), [0, 1, 2]),
        ((ROLL,), []),
        ((ROLL, DELETE), [0]),
        ((PUT, DELETE, ROLL), [0, 2]),
        ((PUT, DELIVERY, ROLL), [0, 2]),
        ((DELETE, ROLL), [1]),
        ((PUT, DELETE, PUT), [0]),
        ((PUT, DELIVERY, PUT, ROLL), [0, 2]),
    ],
)
def test_order(records: tuple[bytes, ...], expected: list[int]) -> None:
    """What ends or replaces a timer stands behind it; a roll of one that is ended is done too."""
    assert expected == done(*records)


def test_keys_do_not_mix() -> None:
    """Traces of many keys, one between the other, count each for its own."""
    keys = [f"K{n}" for n in range(50)]
    puts = [record_of("REAL_TOPIC=T", f"UNIQ_KEY={key}", OUT, topic=TIMER_TOPIC) for key in keys]
    deliveries = [record_of(f"UNIQ_KEY={key}", OUT) for key in keys[::2]]

    assert list(range(0, 50, 2)) == done(*puts, *reversed(deliveries))


def test_the_same_key_twice() -> None:
    """In RocksDB the second takes the place of the first; the wheel holds both, and so do we."""
    assert [] == done(PUT, PUT)
    assert [0] == done(PUT, PUT, overwrites=True)
    assert [] == done(PUT, PUT, overwrites=True, enqueued=(0, 1))
    assert [0, 1] == done(PUT, PUT, DELIVERY, overwrites=True)


def test_signs_of_use() -> None:
    """Only deliveries and rolls tell that RocksDB timers were on."""
    used: list[bool] = []
    for record in (PUT, DELETE, ROLL, DELIVERY):
        timeline = Timeline()
        timeline.add(0, record)
        used.append(timeline.is_used)

    assert [False, False, True, True] == used
