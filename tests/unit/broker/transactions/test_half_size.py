"""Tests of which half messages are taken: what is taken can be renewed and ended."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, Rig, send_ext
from timermq.broker.options import BrokerOptions, TransactionDelay
from timermq.pipeline.admission.admission import TimerPutResult
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.remoting import Command
from timermq.timerstore.message import Message
from timermq.timerstore.put_status import PutStatus
from transaction_rig import (
    COMMIT,
    DISCARD_TOPIC,
    HALF_TOPIC,
    ROLLBACK,
    bodies,
    checks,
    end,
    half_properties,
    joined,
    send_half,
)

SIZE_MAX = 32_767 - 140
"""Of the properties of a half message; 140 bytes are for its renewals."""
DELAYED_MAX = 32_767 - 512
"""Of those that ask for a moment, as for any timer."""
TWELVE = attrs.evolve(BROKER, transaction_check_max=12)
AT_COMMIT = attrs.evolve(BROKER, transaction_delay=TransactionDelay.AT_COMMIT)


async def test_the_largest_is_renewed_and_discarded() -> None:
    """As often as it may be asked about, also when it was renewed before without a check."""
    rig = Rig(options=TWELVE)
    producer = joined(rig.broker.tables.clients)
    send_largest(rig, CHECK_IMMUNITY_TIME_IN_SECONDS="400")
    rig.clock.time_ms += 300_000
    await rig.broker.transaction_check.check()
    asked: list[int] = []
    for _ in range(14):
        rig.clock.time_ms += 100_000
        await rig.broker.transaction_check.check()
        asked.append(len(checks(producer)))
    (record,) = rig.records(DISCARD_TOPIC)
    found = record.properties_dict()

    assert asked == [1] * 12 + [0, 0]
    assert len(bodies(rig.broker, HALF_TOPIC)) == 14
    assert found["TRANSACTION_CHECK_TIMES"] == "12"
    assert found["TIMERMQ_HALF"].startswith("0,")
    assert rig.broker.store.pins.lowest() is None


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_the_largest_is_ended(decision: int) -> None:
    """After a check, by its first name."""
    rig = Rig()
    half = send_largest(rig)
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()
    answer = end(rig, half, decision)

    assert answer.code == 0
    assert len(rig.records(HALF_TOPIC)) == 2
    assert len(rig.records("T")) == (decision == COMMIT)


@pytest.mark.parametrize("size", [SIZE_MAX + 1, 32_767, 32_768])
async def test_one_byte_more_is_refused(size: int) -> None:
    """With the limit, as for timers; nothing is stored."""
    rig = Rig()
    answer = send_sized(rig, size)

    assert (answer.code, answer.remark) == (
        13,
        f"PROPERTIES_SIZE: expected at most {SIZE_MAX} bytes on a half message, with those of the "
        f"broker, found {size}",
    )
    assert rig.records(HALF_TOPIC) == []
    assert rig.broker.statistics().transactions.open == 0


async def test_the_largest_with_a_moment() -> None:
    """The wheel takes it at its commit, whatever its id adds to what was sent; no byte more."""
    rig = Rig(options=AT_COMMIT)
    half = send_sized(rig, DELAYED_MAX, options=AT_COMMIT, TIMER_DELAY_SEC="60")
    larger = send_sized(rig, DELAYED_MAX + 1, options=AT_COMMIT, TIMER_DELAY_SEC="60")
    answer = end(rig, half, COMMIT)

    assert (half.code, larger.code, answer.code) == (0, 13, 0)
    assert (larger.remark or "").startswith(
        f"PROPERTIES_SIZE: expected at most {DELAYED_MAX} bytes"
    )
    assert len(rig.records(TIMER_TOPIC)) == 1


async def test_one_that_is_too_large_leaves_the_others() -> None:
    """Each has its own result, in order, and takes no place among those that may be open."""
    rig = Rig(options=attrs.evolve(BROKER, transactions_max=4))
    sizes = [100, SIZE_MAX + 1, 100, 100]
    halves = [Message(HALF_TOPIC, 0, b"x", bytes(size)) for size in sizes]
    results: list[TimerPutResult] = rig.broker.transactions.put_halves(halves, [""] * len(halves))

    assert [(one.result.status, one.result.queue_offset, one.rule) for one in results] == [
        (PutStatus.PUT_OK, 0, None),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, -1, "PROPERTIES_SIZE"),
        (PutStatus.PUT_OK, 1, None),
        (PutStatus.OS_PAGE_CACHE_BUSY, -1, "TRANSACTIONS_MAX"),
    ]


def send_sized(rig: Rig, size: int, *, options: BrokerOptions = BROKER, **more: str) -> Command:
    """The answer to a half message whose properties are so large where they are stored."""
    return send_noted(rig, size - size_without_note(options, **more), **more)


def send_largest(rig: Rig, **more: str) -> Command:
    """The answer to the largest half message that is taken."""
    rest = size_without_note(BROKER, **more)
    answers = (send_noted(rig, size - rest, **more) for size in range(32_767, 0, -1))
    return next(answer for answer in answers if answer.code == 0)


def size_without_note(options: BrokerOptions, **more: str) -> int:
    """Bytes of the properties where they are stored, but for the note's value."""
    trial = Rig(options=options)
    send_half(trial, "K0", note="x", **more)
    (record,) = trial.records(HALF_TOPIC)
    return len(record.properties) - 1


def send_noted(rig: Rig, count: int, **more: str) -> Command:
    """The answer to a half message with a note of so many characters."""
    ext = send_ext("T", half_properties("K0", note="x" * count, **more), sysFlag="4")
    return rig.call(10, ext, b"K0")
