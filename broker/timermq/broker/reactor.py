"""Receives for all connections at once: one task, one poll, one put for what all of them brought.

A task of trio's for each connection that waits for data costs more than the work itself when many
clients send one message at a time. Here a single task waits until any socket is readable, reads
from all of them, and passes everything on together; so fifty clients that each wait for an answer
still make batches, in the store and on the way to the disk. The form is that of an epoll inside
trio's own: trio waits for the inner one (`sockets`).

What a connection may cost is bounded: a few reads a round, and so many bytes for all of them round
robin, fewer when they take long. A connection whose peer leaves answers unread, or whose requests
wait, is not read from (``rest``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from timermq.remoting.command import Command
from timermq.remoting.connection import Received

from .costly_requests import CostlyRequests
from .durable_answers import DurableAnswers
from .round_robin import RoundRobin
from .session import Session
from .sockets import Sockets

READY_MAX = 256
"""Connections that one round reads from."""
ROUND_SIZE_MAX = 262_144
"""Bytes after which a round reads no further: the other tasks wait for about ten milliseconds."""
ROUND_SIZE_MIN = 16_384
"""The same when what comes takes longer for its bytes than a ``SendV2`` or a run."""
ROUND_SECONDS = 0.01
"""How long a round may work; behind a longer one the next reads half as much."""
REQUEST_SIZE = ROUND_SIZE_MAX // 64
"""The cost of a ``Command``, in bytes: to read it and its signature takes ten times as long as
a send; the work itself is done in ``round_robin``."""

END_SIZE = ROUND_SIZE_MAX // 32
"""Cost of a connection that has ended: some tenths of a millisecond are taken by its
task."""


class Receiver(Protocol):
    """A connection, for the reactor."""

    session: Session

    def receive_ready(self, size_max: int) -> tuple[Sequence[Received], int]:
        """Read so much at most: the requests that are complete now, and the bytes read."""
        ...


class Reactor:
    """The task and its sockets.

    Args:
        sockets: Read from by their numbers; whose poll is closed when no connection is left.
        round_robin: Has the work done.
        durable: Answers that wait for the disk; while there are too many, nothing is received.
        costly: Knows how long this thread has worked so far, and when it pauses.
    """

    def __init__(
        self,
        sockets: Sockets,
        round_robin: RoundRobin,
        durable: DurableAnswers,
        costly: CostlyRequests,
    ) -> None:
        self.sockets = sockets
        self._costly = costly
        self._round_size = ROUND_SIZE_MAX
        self._round_robin = round_robin
        self._durable = durable
        self._receivers: dict[int, Receiver] = {}
        self.rounds = 0
        """Rounds so far that found something."""

    def add(self, file_number: int, receiver: Receiver) -> None:
        """Receive from a socket until ``remove``."""
        self.sockets.register(file_number)
        self._receivers[file_number] = receiver

    def remove(self, file_number: int) -> None:
        """Receive no more; must come before the socket is closed."""
        del self._receivers[file_number]
        self.sockets.unregister(file_number)

    def rest(self, file_number: int, *, rests: bool) -> None:
        """Stop receiving from a socket for a while, or go on."""
        if file_number in self._receivers:
            self.sockets.rest(file_number, rests=rests)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive until cancelled.

        Cancellation: requests read are answered or their connections end, as at a stop.
        """
        task_status.started()
        while True:
            await self.sockets.wait()
            await self._costly.pauses.work(self._round)
            await self._durable.wait_room()

    def _round(self) -> bool:
        """Receive once; whether less came as sends and runs than as commands, by its bytes."""
        chunks: list[tuple[Session, Sequence[Received]]] = []
        began = self._costly.work_seconds()
        room, sends, others = self._round_size, 0, 0
        ready = self.sockets.poll(READY_MAX)
        # The poll keeps its order: without round robin few busy sockets would use up every round.
        turn = self.rounds % max(len(ready), 1)
        for file_number, _ in (*ready[turn:], *ready[:turn]):
            receiver = self._receivers.get(file_number)
            if receiver is not None:
                requests, size = receiver.receive_ready(2 * self._round_size)
                room -= size or END_SIZE
                if requests:
                    chunks.append((receiver.session, requests))
                    if isinstance(requests[-1], Command):
                        others += size
                        room -= REQUEST_SIZE * len(requests)
                    else:
                        sends += size
                if room <= 0:
                    break
        if chunks:
            self.rounds += 1
            self._round_robin.receive(chunks)
            self._pace(self._costly.work_seconds() - began)
        return others > sends

    def _pace(self, seconds: float) -> None:
        """Read less in the next round if this one took too long, and more again if it did not."""
        if seconds > ROUND_SECONDS:
            self._round_size = max(self._round_size // 2, ROUND_SIZE_MIN)
        elif seconds < ROUND_SECONDS / 2:
            self._round_size = min(self._round_size * 2, ROUND_SIZE_MAX)
