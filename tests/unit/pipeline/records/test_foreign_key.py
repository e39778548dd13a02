"""The keys of RocketMQ's deliveries and rolls, and which records its rolls have replaced."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.foreign_key import ForeignRolls, foreign_key_in, pending_key
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from unit.pipeline.records.test_deduplication import OUT, WAITING, record_of


def test_a_java_delivery_answers_for_its_record() -> None:
    """What Java delivered has the key of the record that waited."""
    delivered = record_of(*WAITING, "TIMER_DEQUEUE_MS=5")

    assert pending_key(record_of(*WAITING, topic=TIMER_TOPIC)) == foreign_key_in(delivered)


def test_a_java_roll_answers_for_the_record_before() -> None:
    """A rolled record has a count more than the one it comes from."""
    rolled = record_of(*WAITING, "TIMER_ROLL_TIMES=3", "TIMER_DEQUEUE_MS=5", topic=TIMER_TOPIC)
    before = record_of(*WAITING, "TIMER_ROLL_TIMES=2", topic=TIMER_TOPIC)
    first = record_of(*WAITING, "TIMER_ROLL_TIMES=1", "TIMER_DEQUEUE_MS=5", topic=TIMER_TOPIC)

    assert pending_key(before) == foreign_key_in(rolled)
    assert pending_key(record_of(*WAITING, topic=TIMER_TOPIC)) == foreign_key_in(first)


@pytest.mark.parametrize(
    "properties",
    [
        ("REAL_TOPIC=T2", "UNIQ_KEY=U1", OUT),
        ("REAL_TOPIC=T", "UNIQ_KEY=U2", OUT),
        ("REAL_TOPIC=T", "UNIQ_KEY=U1", "TIMER_OUT_MS=1700000011000"),
        (*WAITING, "TIMER_ROLL_TIMES=1"),
    ],
)
def test_other_timers_have_other_keys(properties: tuple[str, ...]) -> None:
    """Topic, unique key, slot and rolls tell records apart."""
    assert pending_key(record_of(*properties)) != pending_key(record_of(*WAITING))


@pytest.mark.parametrize("topic", ["%RETRY%group", "%DLQ%group", "SCHEDULE_TOPIC_XXXX"])
def test_what_a_consumer_sends_back_is_no_delivery(topic: str) -> None:
    """It keeps the keys, and would answer for another timer that has the same ones."""
    assert foreign_key_in(record_of(*WAITING, "TIMER_DEQUEUE_MS=5", topic=topic)) is None


def test_rolls_that_are_no_number() -> None:
    """More digits than Python reads end nothing: the record is none of Java's."""
    record = record_of("TIMER_DEQUEUE_MS=1", f"TIMER_ROLL_TIMES={'9' * 5000}", topic=TIMER_TOPIC)

    assert foreign_key_in(record) is None


def test_other_records_are_no_deliveries() -> None:
    """A record without the time of its dequeueing comes from a producer; a count must be one."""
    assert foreign_key_in(record_of(*WAITING)) is None
    assert foreign_key_in(record_of()) is None
    odd = record_of(*WAITING, "TIMER_DEQUEUE_MS=5", "TIMER_ROLL_TIMES=x", topic=TIMER_TOPIC)
    assert foreign_key_in(odd) is None


def waits(*more: str, key: str = "U1") -> bytes:
    """A record of the timer topic, with more properties."""
    return record_of("REAL_TOPIC=T", f"UNIQ_KEY={key}", OUT, *more, topic=TIMER_TOPIC)


FIRST = waits()
SECOND = waits("TIMER_ROLL_TIMES=1", "TIMER_DEQUEUE_MS=5")
THIRD = waits("TIMER_ROLL_TIMES=2", "TIMER_DEQUEUE_MS=5")
LABELLED = waits("TIMER_ROLL_LABEL=R")


@pytest.mark.parametrize(
    ("records", "going_on"),
    [
        ([FIRST], [False]),
        ([FIRST, FIRST], [False, False]),
        ([FIRST, SECOND], [True, False]),
        ([FIRST, FIRST, SECOND], [False, True, False]),
        ([FIRST, SECOND, THIRD], [True, True, False]),
        ([SECOND, FIRST], [False, False]),
        ([FIRST, LABELLED], [True, False]),
        ([FIRST, FIRST, LABELLED], [True, True, False]),
        ([FIRST, LABELLED, LABELLED], [True, True, False]),
        ([FIRST, SECOND, LABELLED], [True, True, False]),
        ([LABELLED, FIRST], [False, False]),
        ([waits(key="U2"), LABELLED], [False, False]),
        ([waits(key="U2"), SECOND], [False, False]),
    ],
)
def test_which_records_go_on_behind(records: list[bytes], going_on: list[bool]) -> None:
    """A roll of the wheel replaces one record, one of RocksDB timers all that are before it."""
    rolls = ForeignRolls()
    found = [rolls.goes_on_behind(record) for record in reversed(records)]

    assert found[::-1] == going_on
