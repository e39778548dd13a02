"""The memory of what the last run did: origins, units, Java's deliveries, and when it is let go."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from timermq.pipeline.records.deduplication import (
    AlreadyDone,
    earlier_copies,
    order_in,
    origin_in,
    origin_of,
)
from timermq.pipeline.records.foreign_key import pending_key
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record

V4, V6 = pack_host("127.0.0.1", 1), pack_host("::1", 1)
OUT = "TIMER_OUT_MS=1700000010000"


def array(*values: int) -> NDArray[np.int64]:
    """Positions in the log as an array."""
    return np.array(values, np.int64)


def javas(*properties: str) -> bytes:
    """The text of properties, each given as ``name=value``."""
    return "".join(one.replace("=", "\x01") + "\x02" for one in properties).encode()


def record_of(
    *properties: str,
    topic: str = "T",
    prepared_offset: int = 0,
    born_host: bytes = V4,
    store_host: bytes = V4,
) -> bytes:
    """A record with these properties."""
    return encode_record(
        Message(
            topic,
            0,
            b"x",
            javas(*properties),
            sys_flag=0x10 * (born_host is V6),
            born_host=born_host,
            prepared_offset=prepared_offset,
        ),
        queue_offset=0,
        phy_offset=0,
        store_ms=0,
        store_host=store_host,
    )


@given(phy_offset=st.integers(0, 2**62), born=st.booleans(), store=st.booleans())
def test_an_origin_is_read_as_written(phy_offset: int, born: bool, store: bool) -> None:
    """Whatever the hosts' lengths, position 0 included."""
    record = record_of(
        prepared_offset=origin_of(phy_offset),
        born_host=V6 if born else V4,
        store_host=V6 if store else V4,
    )

    assert phy_offset == origin_in(record)


@pytest.mark.parametrize("prepared_offset", [0, 1, 2**40])
def test_other_records_name_no_origin(prepared_offset: int) -> None:
    """Java leaves the field 0, and a transaction's half message is named by a positive number."""
    assert origin_in(record_of(prepared_offset=prepared_offset)) is None


@given(
    known=st.lists(st.integers(0, 50), unique=True),
    units=st.lists(st.integers(0, 50), unique=True),
    asked=st.lists(st.integers(0, 60)),
)
def test_membership(known: list[int], units: list[int], asked: list[int]) -> None:
    """Entries with a unit or a delivery are not enqueued; requests with a delivery not repeated."""
    done = AlreadyDone(origins=array(*sorted(known)), enqueued=array(*sorted(units)))

    assert [one in known for one in asked] == done.dequeue_repeats(array(*asked)).tolist()
    assert [one in known + units for one in asked] == done.enqueue_repeats(array(*asked)).tolist()


WAITING = ("REAL_TOPIC=T", "UNIQ_KEY=U1", OUT)


def test_each_delivery_answers_for_one_record() -> None:
    """Of three equal records that wait, two that Java delivered leave one."""
    record = record_of(*WAITING)
    done = AlreadyDone(foreign={pending_key(record): [50, 60]})

    assert not done.take_foreign(5, record_of("REAL_TOPIC=T", "UNIQ_KEY=U9", OUT))
    assert [True, True, False] == [done.take_foreign(at, record) for at in (5, 10, 15)]
    assert not AlreadyDone().take_foreign(5, record)


@pytest.mark.parametrize("places", [*itertools.permutations((5, 15, 25))])
def test_a_delivery_stands_behind_its_record(places: tuple[int, ...]) -> None:
    """A record sent again after the delivery of an equal one waits, in whatever order they come."""
    record = record_of(*WAITING)
    done = AlreadyDone(foreign={pending_key(record): [10, 20]})

    assert [at != 25 for at in places] == [done.has_foreign(at, record) for at in places]
    assert [at != 25 for at in places] == [done.take_foreign(at, record) for at in places]


@pytest.mark.parametrize(
    ("slot_ms", "queue_offset", "kept"),
    [(5_000, 10, True), (6_000, 9, True), (5_000, 9, True), (6_000, 10, False), (7_000, 99, False)],
)
def test_forgets_when_both_pointers_are_past(slot_ms: int, queue_offset: int, kept: bool) -> None:
    """Slots and entries that the last run can have touched must be behind, all of them."""
    done = AlreadyDone(
        origins=array(1),
        enqueued=array(2),
        foreign={pending_key(record_of(*WAITING)): [3]},
        until_slot_ms=5_000,
        until_queue_offset=10,
    )
    done.forget(slot_ms=slot_ms, queue_offset=queue_offset)

    assert kept == bool(done)
    assert kept == bool(done.dequeue_repeats(array(1)).all())
    assert kept == bool(done.enqueue_repeats(array(2)).all())
    assert kept == bool(done.foreign)


def test_empty_is_false() -> None:
    """Without anything to remember the stages need not ask."""
    assert not AlreadyDone()
    assert AlreadyDone(origins=array(1))
    assert AlreadyDone(enqueued=array(1))
    assert AlreadyDone(foreign={pending_key(record_of(*WAITING)): [3]})


def test_all_copies_but_the_newest_are_done() -> None:
    """In whatever order the messages roll."""
    done, behind = earlier_copies(array(5, 90, 5, 5, 90), array(100, 200, 300, 400, 500))

    assert sorted(zip(done.tolist(), behind.tolist(), strict=True)) == [
        (5, 100),
        (90, 200),
        (100, 300),
        (200, 500),
        (300, 400),
    ]
    assert not len(earlier_copies(array(), array())[0])


@pytest.mark.parametrize(
    ("topic", "properties", "order"),
    [
        (TIMER_TOPIC, ("TIMER_ROLL_TIMES=1", "TIMER_ORDER=70"), 70),
        (TIMER_TOPIC, ("TIMER_ROLL_TIMES=1",), None),
        (TIMER_TOPIC, ("TIMER_ROLL_TIMES=1", "TIMER_ORDER=x"), None),
        (TIMER_TOPIC, ("TIMER_ORDER=70",), None),
        ("T", ("TIMER_ROLL_TIMES=1", "TIMER_ORDER=70"), None),
    ],
)
def test_the_order_of_a_copy(topic: str, properties: tuple[str, ...], order: int | None) -> None:
    """A record of the timer topic that has rolled names it."""
    assert order_in(record_of(*properties, topic=topic)) == order
