"""Requests that take the event loop for long, and who waits behind them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.costly_requests import (
    COSTLY_SECONDS,
    COSTLY_SECONDS_MIN,
    OWNERS_MAX,
    REST_SECONDS_MAX,
    CostlyRequests,
)
from timermq.broker.session import Session

LONG = 2 * COSTLY_SECONDS_MIN


def session_of(peer: str = "10.0.0.1") -> Session:
    """A connection that was made right now."""
    session = RecordingSession(peer=peer).session
    session.opened_at = trio.current_time()
    return session


def judge() -> CostlyRequests:
    """Without any costly request so far."""
    return CostlyRequests(trio.current_time)


async def test_a_short_request_costs_nothing(mock_clock: MockClock) -> None:
    """The limit itself is short."""
    costly, session = judge(), session_of()
    costly.worked(session, COSTLY_SECONDS_MIN)

    assert not costly.is_costly(session)
    assert costly.rest_until == 0.0


@pytest.mark.parametrize(("seconds", "rest"), [(LONG, 2 * LONG), (60.0, REST_SECONDS_MAX)])
async def test_the_rest_is_twice_as_long_as_the_request(
    mock_clock: MockClock, seconds: float, rest: float
) -> None:
    """It has an end, however long the request took."""
    costly = judge()
    costly.worked(session_of(), seconds)

    assert costly.rest_until == pytest.approx(trio.current_time() + rest)


async def test_a_shorter_request_does_not_end_the_rest(mock_clock: MockClock) -> None:
    """The later end of both counts."""
    costly = judge()
    costly.worked(session_of(), 0.09)
    until = costly.rest_until
    costly.worked(session_of(), LONG)

    assert costly.rest_until == until


async def test_behind_a_batch_of_messages_there_is_no_rest(mock_clock: MockClock) -> None:
    """Its connection is costly, though."""
    costly, session = judge(), session_of()
    costly.worked(session, LONG, is_send=True)

    assert costly.rest_until == 0.0
    assert costly.is_costly(session)


async def test_connections_made_behind_a_costly_request_are_costly(mock_clock: MockClock) -> None:
    """Those of the address that were there before are not, nor those of other addresses."""
    costly, early, asking = judge(), session_of(), session_of()
    mock_clock.jump(1)
    costly.worked(asking, LONG)
    late, other = session_of(), session_of("10.0.0.2")

    assert [costly.is_costly(one) for one in (asking, early, late, other)] == [
        True,
        False,
        True,
        False,
    ]
    mock_clock.jump(COSTLY_SECONDS)
    assert not costly.is_costly(asking)
    assert not costly.is_costly(late)


async def test_another_costly_request_prolongs_the_time(mock_clock: MockClock) -> None:
    """A connection made between both stays costly."""
    costly, asking = judge(), session_of()
    costly.worked(asking, LONG)
    between = session_of()
    mock_clock.jump(COSTLY_SECONDS / 2)
    costly.worked(asking, LONG)
    mock_clock.jump(COSTLY_SECONDS * 3 / 4)

    assert costly.is_costly(between)


async def test_so_many_owners_are_remembered(mock_clock: MockClock) -> None:
    """The one that was costly first is forgotten for a new one."""
    costly = judge()
    addresses = [f"10.1.{number >> 8}.{number & 0xFF}" for number in range(OWNERS_MAX + 1)]
    for address in addresses:
        costly.worked(session_of(address), LONG)

    assert not costly.is_costly(session_of(addresses[0]))
    assert costly.is_costly(session_of(addresses[1]))
    assert costly.is_costly(session_of(addresses[-1]))
