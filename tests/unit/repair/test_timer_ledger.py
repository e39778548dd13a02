"""The timers of the commit log, kept while it is walked over."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.record_effect import Effect
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.repair.timer_ledger import (
    NO_TOPIC,
    TORN,
    TimerLedger,
    bucket_of,
    delete_names,
    foreign_name,
)
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record, record_properties
from unit.repair.timer_records import OUT_MS, delete, delivery, rocketmq_delivery, waiting

SEGMENT = 1_000


def data_of(message: Message, position: int) -> bytes:
    """The record of a message at a position of the log."""
    return encode_record(
        message, queue_offset=position, phy_offset=position, store_ms=1, store_host=bytes(8)
    )


def noted(*messages: Message) -> tuple[TimerLedger, list[Effect | None]]:
    """A ledger of records at 0, 600, 1200 and so on, and their effects."""
    ledger, effects = TimerLedger(SEGMENT), list[Effect | None]()
    for number, message in enumerate(messages):
        data = data_of(message, 600 * number)
        is_timer = message.topic == TIMER_TOPIC
        effects.append(ledger.note(data, read_log_record(data), 600 * number, is_timer=is_timer))
    ledger.end()
    return ledger, effects


def rows(ledger: TimerLedger) -> list[list[int]]:
    """All waiting records in order of their positions."""
    found = [
        row for one in tuple(ledger.timers.segments()) for row in ledger.timers.take(one).tolist()
    ]
    return sorted(found)


def test_a_waiting_record_is_kept_by_its_position() -> None:
    """With its slot, its entry, and the hash of its topic; it names no origin."""
    ledger, effects = noted(waiting("a"), waiting("b"))

    assert effects == [None, None]
    assert [row[0] for row in rows(ledger)] == [0, 600]
    ledger, _ = noted(waiting("a"))
    ((position, size, out_ms, entry, is_delete, topic_hash),) = rows(ledger)
    assert (position, size) == (0, len(data_of(waiting("a"), 0)))
    assert (out_ms, entry, is_delete, topic_hash) == (OUT_MS, 0, 0, java_hash("T"))


def test_a_record_without_slot_and_topic_is_kept_too() -> None:
    """Its unit can be compared with nothing; its loss can be told."""
    ledger, _ = noted(Message(TIMER_TOPIC, 0, b"x", b""))

    assert [(row[2], row[5]) for row in rows(ledger)] == [(-1, NO_TOPIC)]


def test_a_delivery_is_kept_by_its_origin() -> None:
    """In the part of the log that the origin lies in."""
    ledger, effects = noted(waiting("a"), waiting("b"), waiting("c"), delivery("c", 1200))

    assert effects[3] is Effect.DELIVERED
    assert list(ledger.origins.segments()) == [1]
    assert ledger.origins.take(1).tolist() == [[1200, 1800, Effect.DELIVERED]]


def test_rocketmq_is_known_by_keys() -> None:
    """Of a delivery the hash of the waiting record's keys is kept."""
    ledger, effects = noted(waiting("a"), rocketmq_delivery("a"))
    name = foreign_name(data_of(waiting("a"), 0))

    assert effects[1] is None
    assert ledger.foreign.take(bucket_of(name)).tolist() == [[name]]
    assert foreign_name(data_of(waiting("b"), 0)) != name


@pytest.mark.parametrize("order_py", [None, 0])
def test_a_delete_is_kept_by_the_name_that_it_gives(order_py: int | None) -> None:
    """By key as RocketMQ's, or by order as ours: the waiting record has both names."""
    ledger, _ = noted(waiting("a"), delete("a", order_py=order_py))
    names = delete_names(record_properties(data_of(waiting("a"), 0)), b"T", 0)
    found = [
        name
        for bucket in tuple(ledger.deletes.segments())
        for (name,) in ledger.deletes.take(bucket).tolist()
    ]

    assert len(found) == 1
    assert found[0] in names
    assert [row[4] for row in rows(ledger)] == [0, 1]


@pytest.mark.parametrize(
    ("behind", "is_whole"),
    [
        ([waiting("a", origin_py=0)], True),
        ([delivery("z", 0), waiting("a", origin_py=0)], True),
        ([waiting("b")], False),
        ([waiting("a", origin_py=5)], False),
        ([], False),
    ],
)
def test_the_delete_of_a_move_counts_with_the_message_behind_it(
    behind: list[Message], *, is_whole: bool
) -> None:
    """Behind it in the timer topic: what a power cut tore takes nothing out."""
    ledger, _ = noted(waiting("a"), delete("a", order_py=0, for_py=0), *behind)
    kept = list(ledger.deletes.segments())

    assert rows(ledger)[1][4] == (1 if is_whole else TORN)
    assert bool(kept) == is_whole


def test_a_later_copy_tells_that_earlier_ones_rolled_on() -> None:
    """Whatever has become of the records between: they are done."""
    ledger, effects = noted(
        waiting("a"),
        waiting("a", origin_py=0, rolls=1, order_py=0),
        waiting("a", origin_py=600, rolls=2, order_py=0),
    )
    found = {
        (origin, effect)
        for segment in tuple(ledger.origins.segments())
        for origin, _, effect in ledger.origins.take(segment).tolist()
    }

    assert effects[1:] == [Effect.ROLLED, Effect.ROLLED]
    assert found >= {(0, Effect.ROLLED), (600, Effect.ROLLED), (0, Effect.ROLLED_ON)}


def test_a_filler_may_name_what_a_lost_roll_has_rolled() -> None:
    """Any other filler says nothing."""
    ledger = TimerLedger(SEGMENT)
    for message in (delivery("a", 600), Message("T", 0, b"", b"")):
        ledger.note_filler(data_of(message, 1200), 1200)
    ledger.end()

    assert ledger.origins.take(0).tolist() == [[600, 1200, Effect.ROLLED]]
    ledger.close()
