"""Tests of the reactor: who is read when many have something to say."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession, Rig
from timermq.broker.costly_requests import CostlyRequests
from timermq.broker.reactor import (
    END_SIZE,
    REQUEST_SIZE,
    ROUND_SECONDS,
    ROUND_SIZE_MAX,
    ROUND_SIZE_MIN,
    Reactor,
)
from timermq.broker.round_robin import RoundRobin
from timermq.broker.session import Session
from timermq.remoting import Command
from timermq.remoting.connection import Received, Request

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")

SERVED_PER_ROUND = 4
BUSY_COUNT = 10


@attrs.define(eq=False)
class BusyPeer:
    """A socket that is always readable, and brings the same each time."""

    session: Session
    size: int
    """Bytes it brings."""
    requests: int
    """Requests in them."""
    served: int = 0
    size_max: int = 0
    """What it may bring at most."""

    def receive_ready(self, size_max: int) -> tuple[Sequence[Request], int]:
        """As many requests of as many bytes each time: the peer never ends."""
        self.served += 1
        self.size_max = size_max
        return [Command(9_999, opaque=self.served)] * self.requests, self.size


@pytest.mark.parametrize(
    ("size", "requests"),
    [
        (ROUND_SIZE_MAX // SERVED_PER_ROUND, 1),
        (100, ROUND_SIZE_MAX // REQUEST_SIZE // SERVED_PER_ROUND),
    ],
    ids=["many bytes", "much work"],
)
async def test_busy_sockets_take_turns(size: int, requests: int) -> None:
    """A round has a limit; a session not read in one is read in a later one."""
    rig = Rig()
    reactor = Reactor(
        rig.broker.endpoint.sockets,
        RoundRobin(rig.broker.dispatcher, rig.broker.tables.costly),
        rig.broker.tables.durable,
        CostlyRequests(lambda: 0.0),
    )
    peers: list[BusyPeer] = []
    with contextlib.ExitStack() as sockets:
        for _ in range(BUSY_COUNT):
            ours, theirs = socket.socketpair()
            sockets.enter_context(ours)
            sockets.enter_context(theirs)
            theirs.send(b"x")
            peers.append(BusyPeer(RecordingSession().session, size, requests))
            reactor.add(ours.fileno(), peers[-1])
        async with trio.open_nursery() as nursery:
            await nursery.start(reactor.run)
            while reactor.rounds < 10 * BUSY_COUNT:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    served = [peer.served for peer in peers]
    assert sum(served) == SERVED_PER_ROUND * reactor.rounds
    assert max(served) - min(served) <= SERVED_PER_ROUND


async def test_connections_that_end_together_are_met_in_some_rounds() -> None:
    """Each wakes a task: thousands of them at once would hold up everything else."""
    rig = Rig()
    costly = CostlyRequests(lambda: 0.0)
    round_robin = RoundRobin(rig.broker.dispatcher, costly)
    sockets = rig.broker.endpoint.sockets
    reactor = Reactor(sockets, round_robin, rig.broker.tables.durable, costly)
    peers: list[BusyPeer] = []
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.send(b"x")
            peers.append(BusyPeer(RecordingSession().session, 0, 0))
            reactor.add(ours.fileno(), peers[-1])
        async with trio.open_nursery() as nursery:
            await nursery.start(reactor.run)
            while not any(peer.served for peer in peers):
                await trio.lowlevel.checkpoint()
            served = sum(peer.served for peer in peers)
            nursery.cancel_scope.cancel()

    # One round, or a second one before this task had its turn.
    assert 0 < served <= 2 * ROUND_SIZE_MAX // END_SIZE


class SlowRoundRobin(RoundRobin):
    """Takes some time for each chunk."""

    clock: MockClock
    seconds: float = 0

    def receive(self, chunks: Sequence[tuple[Session, Sequence[Received]]]) -> None:
        """The clock goes on by the seconds that each call takes."""
        self.clock.jump(self.seconds)
        super().receive(chunks)


async def test_what_takes_long_is_read_in_smaller_pieces(mock_clock: MockClock) -> None:
    """Sends that take ten times as long as plain ones do not hold up timers; then it goes on."""
    rig = Rig()
    round_robin = SlowRoundRobin(rig.broker.dispatcher, rig.broker.tables.costly)
    round_robin.clock, round_robin.seconds = mock_clock, 3 * ROUND_SECONDS
    reactor = Reactor(
        rig.broker.endpoint.sockets,
        round_robin,
        rig.broker.tables.durable,
        rig.broker.tables.costly,
    )
    sizes: list[int] = []
    with contextlib.ExitStack() as sockets:
        ours, theirs = socket.socketpair()
        sockets.enter_context(ours)
        sockets.enter_context(theirs)
        theirs.send(b"x")
        peer = BusyPeer(RecordingSession().session, 100, 1)
        reactor.add(ours.fileno(), peer)
        async with trio.open_nursery() as nursery:
            await nursery.start(reactor.run)
            for taken in (10, 20):
                while reactor.rounds < taken:
                    await trio.lowlevel.checkpoint()
                sizes.append(peer.size_max)
                round_robin.seconds = 0
            nursery.cancel_scope.cancel()

    assert sizes == [2 * ROUND_SIZE_MIN, 2 * ROUND_SIZE_MAX]
