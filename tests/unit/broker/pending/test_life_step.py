"""Steps of a message's life, each made of one record."""

from __future__ import annotations

import pytest

from timermq.broker.pending.life_step import (
    LifeStep,
    Step,
    arrival_step,
    ending_step,
    entry_step,
    half_step,
    level_step,
    mark_step,
)
from timermq.broker.transactions.half_message import decode_half, parked
from timermq.broker.transactions.op_message import Ending, Mark, op_message
from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.quarantine import quarantine_record
from timermq.pipeline.quarantine.quarantine_record import Entry, State
from timermq.pipeline.records.deduplication import origin_of
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import Record, decode_record, encode_record

STORE_MS = 1_700_000_009_000
HOST = pack_host("127.0.0.1", 10_911)


def stored(message: Message) -> tuple[bytes, Record]:
    """The record of a message at position 4096 of the log, and what it decodes to."""
    data = encode_record(
        message, queue_offset=7, phy_offset=4096, store_ms=STORE_MS, store_host=HOST
    )
    return data, decode_record(data)


def sent(topic: str, properties: str = "", **fields: int) -> Message:
    """A message of queue 3."""
    return Message(topic, 3, b"x", properties.encode(), born_host=HOST, **fields)


def arrival(message: Message, moments: dict[int, int] | None = None) -> LifeStep:
    """The step that the record of a message shows on its topic."""
    return arrival_step(*stored(message), moments or {})


def test_a_message_without_a_moment_was_sent() -> None:
    """It is in its queue at once, so it has a place there and no lateness."""
    step = arrival(sent("T", "TIMER_DELIVER_MS\x011700000000000\x02"))

    assert (step.step, step.topic, step.queue_id, step.queue_offset) == (Step.SENT, "T", 3, 7)
    assert (step.deliver_ms, step.lateness_ms, step.text) == (None, None, "")


@pytest.mark.parametrize(
    ("properties", "origin_py"),
    [
        ("TIMER_DELIVER_MS\x011700000008000\x02", 256),
        ("TIMER_DELIVER_MS\x011700000008000\x02TIMER_DEQUEUE_MS\x011\x02", None),
    ],
)
def test_a_delivery_names_its_origin_or_the_time_of_its_dequeue(
    properties: str, origin_py: int | None
) -> None:
    """Ours has the first, RocketMQ's the second; lateness counts from the moment asked for."""
    prepared = 0 if origin_py is None else origin_of(origin_py)
    step = arrival(sent("T", properties, prepared_offset=prepared))

    assert (step.step, step.deliver_ms) == (Step.DELIVERED, STORE_MS - 1000)
    assert step.lateness_ms == 1000


def test_the_moment_of_the_origin_counts_before_the_property() -> None:
    """A moved message still carries the moment that it was sent with."""
    message = sent("T", "TIMER_DELIVER_MS\x011700000008000\x02", prepared_offset=origin_of(256))
    step = arrival(message, {256: STORE_MS - 5})

    assert (step.deliver_ms, step.lateness_ms) == (STORE_MS - 5, 5)


def test_a_dead_letter_is_told_by_its_topic() -> None:
    """However it came there; the number of tries is in the text."""
    step = arrival(sent("%DLQ%G", prepared_offset=origin_of(256), reconsume_times=16))

    assert (step.step, step.text) == (Step.DEAD_LETTER, "consumed 16 times")


def test_a_level_without_a_number_is_the_first() -> None:
    """A known level counts from the store time of its record."""
    levels = DelayLevels.parse("1s 5s 1m")
    plain = level_step(stored(sent("SCHEDULE_TOPIC_XXXX"))[1], levels)
    named = "DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x015\x02"
    known = level_step(stored(sent("SCHEDULE_TOPIC_XXXX", named))[1], levels)

    assert (plain.topic, plain.queue_id, plain.deliver_ms) == ("", None, STORE_MS + 1000)
    assert (known.topic, known.queue_id, known.deliver_ms) == ("T", 5, STORE_MS + 5000)
    assert (plain.text, known.text) == ("level 1", "level 2")


def test_a_half_message_tells_how_often_its_producer_was_asked() -> None:
    """Nothing is said of questions before the first one."""
    properties = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01K\x02"
    half = parked(sent("T", properties), "K")
    asked = Message(half.topic, 0, half.body, half.properties + b"TRANSACTION_CHECK_TIMES\x013\x02")
    steps = [half_step(decode_half(stored(one)[0])) for one in (half, asked)]

    assert [one.text for one in steps] == [
        "a transaction of P",
        "a transaction of P, asked 3 times",
    ]
    assert [(one.step, one.topic, one.queue_id) for one in steps] == [(Step.HALF, "T", 3)] * 2


@pytest.mark.parametrize(
    ("ending", "step"),
    [
        (Ending.COMMIT, Step.COMMITTED),
        (Ending.ROLLBACK, Step.ROLLED_BACK),
        (Ending.DISCARD, None),
        (Ending.RENEWED, None),
    ],
)
def test_an_op_message_ends_a_transaction_by_commit_or_rollback(
    ending: Ending, step: Step | None
) -> None:
    """A discarded one is found by its own topic, and a renewed one goes on."""
    found = ending_step(stored(op_message(Mark(ending=ending, offsets=(0,)), 1))[1], "T")

    assert (None if found is None else found.step) == step


def entry(topic: str | None) -> Entry:
    """An entry of the quarantine."""
    return Entry(
        origin_py=256,
        reason="checksum",
        text="expected 1, found 2",
        set_aside_ms=STORE_MS - 3000,
        size=1,
        record=b"",
        topic=topic,
        queue_id=None,
        deliver_ms=5,
        unique_id="",
        keys="",
        tags="",
    )


def test_an_entry_of_the_quarantine_keeps_its_first_time() -> None:
    """It may be written again later; a topic that is not known stays empty."""
    step = entry_step(entry(None), stored(sent("T"))[1])

    assert (step.step, step.at_ms, step.topic) == (Step.SET_ASIDE, STORE_MS - 3000, "")
    assert step.text == "checksum: expected 1, found 2 (id 256)"


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (State.RETRIED, Step.RETRIED),
        (State.DROPPED, Step.DROPPED),
        (State.CANCELLED, Step.CANCELLED),
    ],
)
def test_a_mark_says_who_ended_an_entry(state: State, step: Step) -> None:
    """Each way out of the quarantine is a step of its own."""
    mark = quarantine_record.Mark(origin_py=256, state=state, by="me")
    found = mark_step(mark, stored(sent("T"))[1], "T")

    assert (found.step, found.at_ms, found.phy_offset) == (step, STORE_MS, 4096)
    assert found.text == "in quarantine, by me (id 256)"


def test_a_row_has_plain_values() -> None:
    """CBOR and JSON know neither enumerations nor tuples."""
    row = LifeStep(step=Step.SENT, at_ms=1, phy_offset=2, topic="T", consumed_by=("G",)).to_row()

    assert (row["step"], row["consumed_by"]) == ("sent", ["G"])
