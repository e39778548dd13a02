"""Tests of transactional messages that ask for a moment, by a classic level or another way."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, Rig, send_ext
from timermq.broker.options import TransactionDelay
from timermq.pipeline.records.timer_record import TIMER_TOPIC, own_properties
from timermq.timerstore.properties import parse
from transaction_rig import COMMIT, HALF_TOPIC, end, half_properties, send_half

AT_COMMIT = attrs.evolve(BROKER, transaction_delay=TransactionDelay.AT_COMMIT)
START_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DELAY", "1"),
        ("DELAY", "18"),
        ("DELAY", "99"),
        ("TIMER_DELAY_SEC", "5"),
        ("TIMER_DELAY_MS", "5"),
        ("TIMER_DELIVER_MS", f"{START_MS + 60_000}"),
    ],
)
@pytest.mark.parametrize("tried", ["0", "1"])
async def test_refused(name: str, value: str, tried: str) -> None:
    """Whichever way it asks, and however often it says that it was tried: nothing is stored."""
    rig = Rig()
    ext = send_ext("T", half_properties("K0", **{name: value}), sysFlag="4", reconsumeTimes=tried)
    answer = rig.call(10, ext, b"x")

    assert (answer.code, answer.remark) == (
        13,
        f"TRANSACTION_DELAY: a transactional message asks for a moment: '{name}\\x01{value}\\x02'; "
        "allowed with transaction_delay AT_COMMIT",
    )
    assert [] == [*rig.records(HALF_TOPIC), *rig.records(TIMER_TOPIC), *rig.records("T")]


@pytest.mark.parametrize("value", ["0", "-3"])
async def test_a_level_that_is_none(value: str) -> None:
    """Levels up to 0 ask for nothing."""
    rig = Rig()
    answer = end(rig, send_half(rig, "K0", DELAY=value), COMMIT)

    assert 0 == answer.code
    assert [b"K0"] == [one.body for one in rig.records("T")]


@pytest.mark.parametrize("tried", ["0", "1"])
async def test_a_level_begins_with_the_commit(tried: str) -> None:
    """By the option: a half message until then, on the wheel from then on; RocketMQ loses it."""
    rig = Rig(options=AT_COMMIT)
    ext = send_ext("T", half_properties("K0", DELAY="3"), sysFlag="4", reconsumeTimes=tried)
    half = rig.call(10, ext, b"x")
    before = rig.records(TIMER_TOPIC)
    rig.clock.time_ms += 7_000
    answer = end(rig, half, COMMIT)
    (waiting,) = rig.records(TIMER_TOPIC)
    found = waiting.properties_dict()

    assert [] == [*before, *rig.records("T")]
    assert 1 == len(rig.records(HALF_TOPIC))
    assert (0, 0) == (half.code, answer.code)
    assert "T" == found["REAL_TOPIC"]
    assert str(START_MS + 7_000 + 10_000) == found["TIMER_DELIVER_MS"]
    assert ("true", "3") == (
        found["TRAN_MSG"],
        parse(own_properties(waiting.properties))["DELAY"],
    )


async def test_a_level_that_cannot_be_read() -> None:
    """It is refused before anything is stored, not at the commit."""
    rig = Rig(options=AT_COMMIT)
    answer = rig.call(10, send_ext("T", half_properties("K0", DELAY="x"), sysFlag="4"), b"x")

    assert 13 == answer.code
    assert (answer.remark or "").startswith("DELAY_LEVEL: ")
    assert [] == rig.records(HALF_TOPIC)
