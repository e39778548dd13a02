"""Timers read as columns are those that ``decode_timer`` reads one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from golden_stores import GoldenStores
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    deleted_name,
    timer_tail,
)
from timermq.pipeline.spark.record_chunks import RecordChunk, records_in
from timermq.pipeline.spark.timer_arrays import (
    TimerArrays,
    deleted_keys,
    deleted_names,
    deleted_orders,
    read_timers,
)
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message import Message
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties
from unit.pipeline.spark.drawn_records import SLOT_MS, V4, V6, log_of, texts

START = 4096
Facts = tuple[object, ...]


def chunk_of(records: list[bytes], start: int = START) -> RecordChunk:
    """Records as columns; all must be records."""
    sizes = np.array([len(one) for one in records], np.int64)
    starts = np.cumsum(sizes) - sizes
    chunk, are = records_in(b"".join(records), starts, starts + start)
    assert are.all()
    return chunk


def one_by_one(records: list[bytes], precision_ms: int, start: int = START) -> list[Facts]:
    """What is read of each by itself."""
    found: list[Facts] = []
    for record in records:
        try:
            facts = decode_timer(record, start, precision_ms)
            where = facts.destination
            found.append(
                (
                    facts.deliver_ms,
                    facts.out_ms,
                    where.topic,
                    where.queue_id,
                    where.topic_hash,
                    facts.order_py,
                    facts.rolls,
                    facts.is_delete,
                )
            )
        except TimerRecordError as error:
            found.append((error.reason.value,))
        start += len(record)
    return found


def as_columns(timers: TimerArrays) -> list[Facts]:
    """The facts of each timer, or its fault, from the columns."""
    columns = zip(
        timers.deliver_ms.tolist(),
        timers.out_ms.tolist(),
        timers.topics().to_pylist(),
        timers.queue_id.tolist(),
        timers.topic_hashes().tolist(),
        timers.order_py.tolist(),
        timers.rolls.tolist(),
        timers.is_delete.tolist(),
        strict=True,
    )
    return [
        (timers.faults[row],) if row in timers.faults else facts
        for row, facts in enumerate(columns)
    ]


def of_timers(
    *properties: bytes, hosts: tuple[bytes, ...] = (V4,), store_ms: int = 5
) -> list[bytes]:
    """Records of the timer topic with these properties."""
    messages = [Message(TIMER_TOPIC, 0, b"TIMER_DEL_UNIQKEY\x01", text) for text in properties]
    return log_of(messages, hosts, START, store_ms)


OURS = timer_tail(deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic="T", queue_id=3)
ROLLED = timer_tail(
    deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic="T", queue_id=3, rolls=2, order_py=100
)
OF_LEVEL = timer_tail(deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic="T", queue_id=3, by_level=True)
ROLLED_LEVEL = timer_tail(
    deliver_ms=SLOT_MS + 7,
    out_ms=SLOT_MS,
    topic="T",
    queue_id=3,
    rolls=2,
    order_py=100,
    by_level=True,
)


@given(
    properties=st.lists(texts(), min_size=1, max_size=5),
    hosts=st.sampled_from(((V4,), (V6,), (V4, V6))),
    store_ms=st.sampled_from((SLOT_MS - 4000, SLOT_MS + 600, -(2**63), 2**63 - 1)),
    precision_ms=st.sampled_from((1000, 100)),
)
@example([OURS, ROLLED, b"UNIQ_KEY\x01u\x02" + OURS], (V4,), 5, 1000)
@example([OURS[:-1] + b"x", b"X" + ROLLED, OURS + OURS, OURS + ROLLED], (V4,), 5, 1000)
@example([b"TIMER_ROLL_TIMES\x013\x02" + OURS, b"TIMER_ORDER\x0199999\x02" + OURS], (V4,), 5, 1000)
@example(
    [b"DELAY\x013\x02" + OF_LEVEL, b"DELAY\x013\x02" + ROLLED_LEVEL, OF_LEVEL[9:]], (V4,), 5, 1000
)
@example([OF_LEVEL.replace(b"Y\x010", b"Y\x011"), ROLLED + b"DELAY\x010\x02"], (V4,), 5, 1000)
@example([OURS.replace(b"_QID\x013", b"_QID\x01003"), b"KEY", b"S\x01v"], (V4,), 5, 1000)
def test_drawn(
    properties: list[bytes], hosts: tuple[bytes, ...], store_ms: int, precision_ms: int
) -> None:
    """Whatever a record says, it is read or refused for the same reason."""
    records = of_timers(*properties, hosts=hosts, store_ms=store_ms)

    assert one_by_one(records, precision_ms) == as_columns(
        read_timers(chunk_of(records), precision_ms)
    )


@given(properties=st.lists(texts(), min_size=1, max_size=5))
def test_what_deletes_name(properties: list[bytes]) -> None:
    """A delete names an order if it has one, and else a key."""
    records = of_timers(*properties)

    assert [deleted_name(record_properties(one)) for one in records] == deleted_names(
        chunk_of(records)
    ).to_pylist()


@given(properties=st.lists(texts(), min_size=1, max_size=5))
def test_order_and_key_of_deletes(properties: list[bytes]) -> None:
    """What deletes name is told apart: a key as text, an order as a number."""
    records = of_timers(*properties)
    chunk = chunk_of(records)
    found = list(map(record_properties, records))
    keys = [find(text, b"TIMER_DEL_UNIQKEY") for text in found]
    orders = [find(text, b"TIMER_DEL_ORDER") or b"" for text in found]
    numbers, are = deleted_orders(chunk)

    assert [None if key is None else key.decode() for key in keys] == deleted_keys(
        chunk
    ).to_pylist()
    expected = list(map(number_in, orders))
    assert [one is not None for one in expected] == are.tolist()
    assert [one for one in expected if one is not None] == numbers[are].tolist()


def test_the_usual_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of ours and of Java's are read as columns, none by itself."""
    java = b"REAL_QID\x013\x02TIMER_DELAY_SEC\x015\x02REAL_TOPIC\x01T\x02TIMER_OUT_MS\x01%d\x02"
    javas = (java % SLOT_MS, java % SLOT_MS + b"TIMER_ROLL_TIMES\x011\x02")
    records = of_timers(OURS, ROLLED, OF_LEVEL, ROLLED_LEVEL, *javas)
    expected = one_by_one(records, 1000)
    monkeypatch.setattr("timermq.pipeline.spark.timer_arrays.decode_timer", None)

    assert expected == as_columns(read_timers(chunk_of(records), 1000))


def test_topics_with_one_hash() -> None:
    """The hash is that of the real topic, also where others share it."""
    tails = [
        timer_tail(deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic=topic, queue_id=0)
        for topic in ("Aa", "BB", "Aa", "C")
    ]
    timers = read_timers(chunk_of(of_timers(*tails)), 1000)

    assert [java_hash(name) for name in ("Aa", "BB", "Aa", "C")] == timers.topic_hashes().tolist()
    assert ["Aa", "BB", "Aa", "C"] == timers.topics().to_pylist()


@pytest.mark.parametrize("name", ["g3", "g4", "g5"])
def test_javas_own(golden_stores: GoldenStores, name: str) -> None:
    """Each record of the timer topic that RocketMQ wrote is read as it is by itself."""
    store = golden_stores[name]
    segment_size = next(Path(f"{store.root}/commitlog").iterdir()).stat().st_size
    found = 0
    for one in store.manifest.state.records:
        if one.blank or one.topic != TIMER_TOPIC:
            continue
        segment = one.phy_offset - one.phy_offset % segment_size
        with Path(f"{store.root}/commitlog/{segment:020d}").open("rb") as file:
            file.seek(one.phy_offset - segment)
            records = [file.read(one.size)]
        found += 1
        assert one_by_one(records, 1000, one.phy_offset) == as_columns(
            read_timers(chunk_of(records, one.phy_offset), 1000)
        )
    assert found
