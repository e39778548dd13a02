"""Tests of CLOCK: what is told of the clock, and what the operator's word does."""

from __future__ import annotations

import pytest
import trio

from broker_rig import open_broker
from fakes import START_MS, VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.session import Session, pack_born_host
from timermq.pipeline.clock.clock import trio_time_ms
from timermq.remoting import Command, RemoteProtocolError, RequestCode
from timermq.remoting.clock_report import ClockReport

YEAR_MS = 365 * 86_400_000


def ask(broker: Broker, **ext: str) -> Command:
    """The answer to a request."""
    session = Session(
        remote_address="127.0.0.1:40000",
        born_host=pack_born_host("127.0.0.1", 40_000),
        queue=lambda _: None,
        flush=lambda: None,
        start_soon=lambda _: False,
        close=lambda _: None,
    )
    (answer,) = broker.dispatcher.handle(session, [Command(RequestCode.CLOCK, ext=ext)])
    assert isinstance(answer, Command)
    return answer


async def test_a_clock_that_is_ahead(autojump_clock: trio.testing.MockClock) -> None:
    """It is reported, in the statistics too; accepted, the broker works by it."""
    wall = VirtualClock()
    broker = open_broker(wall, steady_ms=trio_time_ms)
    safe = ClockReport.decode(ask(broker).body)
    wall.step(YEAR_MS)
    ahead = ClockReport.decode(ask(broker).body)
    counted = broker.statistics()
    accepted = ClockReport.decode(ask(broker, accept="true").body)

    assert ("SAFE", None, 0) == (safe.state, safe.fault, safe.off_ms)
    assert ("UNSAFE", "forward", YEAR_MS) == (ahead.state, ahead.fault, ahead.off_ms)
    assert (START_MS, START_MS + YEAR_MS) == (ahead.now_ms, ahead.wall_ms)
    assert (START_MS, 600_000, 1) == (ahead.since_ms, ahead.believed_in_ms, ahead.steps_forward)
    assert ("UNSAFE", START_MS) == (counted.clock.state, counted.now_ms)
    assert ("SAFE", START_MS + YEAR_MS, False) == (
        accepted.state,
        accepted.now_ms,
        accepted.rewinds,
    )


async def test_accept_is_a_truth_value(autojump_clock: trio.testing.MockClock) -> None:
    """Anything else is refused by rule, and changes nothing."""
    wall = VirtualClock()
    broker = open_broker(wall, steady_ms=trio_time_ms)
    wall.step(YEAR_MS)
    answer = ask(broker, accept="perhaps")

    assert "FIELD: request 9007: accept: expected true, false, 1 or 0, found 'perhaps'" == (
        answer.remark
    )
    assert "UNSAFE" == ClockReport.decode(ask(broker).body).state


@pytest.mark.parametrize("body", [b"", b"\xa0", b"\xff", b"\xa1\x65state\x01"])
def test_a_report_that_is_none(body: bytes) -> None:
    """It is refused with a rule's name."""
    with pytest.raises(RemoteProtocolError, match=r"CLOCK_BODY: "):
        ClockReport.decode(body)
