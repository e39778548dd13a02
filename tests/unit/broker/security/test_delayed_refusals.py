"""Refusals that are sent late on purpose: in order of their moments, and not too many."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.security import delayed_refusals
from timermq.broker.security.delayed_refusals import HELD_PER_PEER_MAX, DelayedRefusals
from timermq.remoting import Command


async def test_answers_go_in_the_order_of_their_moments(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """One that is held later for a shorter time comes first; of one moment the earlier one."""
    late, one = DelayedRefusals(), RecordingSession()
    await nursery.start(late.run)
    for opaque, seconds in ((1, 3.0), (2, 1.0), (3, 1.0)):
        late.hold("x", one.session, Command(16, opaque=opaque), seconds)
    begun = trio.current_time()
    await one.wait_sent(2)
    assert [answer.opaque for answer in one.sent] == [2, 3]
    assert trio.current_time() - begun == pytest.approx(1)
    await one.wait_sent(3)

    assert (one.sent[2].opaque, late.held) == (1, 0)
    assert trio.current_time() - begun == pytest.approx(3)


async def test_a_one_way_request_takes_up_room_and_gets_no_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Otherwise it would cost an adversary nothing."""
    late, one = DelayedRefusals(), RecordingSession()
    await nursery.start(late.run)
    late.hold("x", one.session, None, 1)
    assert late.held == 1
    await trio.sleep(2)

    assert (one.sent, late.held) == ([], 0)


async def test_the_room_of_a_peer_is_free_again_once_its_answers_are_sent(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """So a peer that waits is never cut off."""
    late, one = DelayedRefusals(), RecordingSession()
    await nursery.start(late.run)
    for _ in range(2):
        for _ in range(HELD_PER_PEER_MAX):
            late.hold("x", one.session, None, 1)
        await trio.sleep(2)
    assert one.closed_for is None
    for _ in range(HELD_PER_PEER_MAX + 1):
        late.hold("x", one.session, None, 1)

    assert one.closed_for == "too many refused requests"
    assert late.held == HELD_PER_PEER_MAX


async def test_the_limit_of_all_peers_closes_the_connection_that_asks(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """One with room of its own as well: the answers of others stay."""
    monkeypatch.setattr(delayed_refusals, "HELD_MAX", 2)
    late, one, other = DelayedRefusals(), RecordingSession(), RecordingSession()
    late.hold("x", one.session, Command(16), 1)
    late.hold("x", one.session, Command(16), 1)
    late.hold("y", other.session, Command(16), 1)

    assert (one.closed_for, other.closed_for, late.held) == (None, "too many refused requests", 2)
