"""Tests of the reactor: who is read when many have something to say."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence

import attrs
import pytest
import trio

from broker_rig import RecordingSession, Rig
from timermq.broker.reactor import REQUEST_SIZE, ROUND_SIZE_MAX, Reactor
from timermq.broker.session import Session
from timermq.broker.turns import Turns
from timermq.remoting import Command
from timermq.remoting.connection import Request

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

    def receive_ready(self) -> tuple[Sequence[Request], int]:
        """Never the end."""
        self.served += 1
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
    """A round has a limit; whoever was not read in one is read in a later one."""
    rig = Rig()
    reactor = Reactor(
        rig.broker.endpoint.sockets,
        Turns(rig.broker.dispatcher, rig.broker.tables.costly),
        rig.broker.tables.durable,
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
