"""Refusals that are sent late on purpose, so that a refused client does not retry at once."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter

import trio

from timermq.pipeline.state.signal import Signal

from ..session import Answer, Session

HELD_PER_PEER_MAX = 64
HELD_MAX = 4_096
"""Answers held at a time, for one peer and in all."""


class DelayedRefusals:
    """The answers that are held; ``hold`` is plain code, ``run`` lets them go."""

    def __init__(self) -> None:
        self._held: list[tuple[float, int, str, Session, Answer | None]] = []
        self._by_peer: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._changed = Signal()

    @property
    def held(self) -> int:
        """Number of answers that are held."""
        return len(self._held)

    def hold(self, peer: str, session: Session, answer: Answer | None, seconds: float) -> None:
        """Send an answer later; when too many are held, close the connection instead.

        Args:
            peer: Whom it counts for.
            session: Where it goes.
            answer: None for a one-way request, which takes up room all the same.
            seconds: How late.
        """
        if self._by_peer[peer] >= HELD_PER_PEER_MAX or len(self._held) >= HELD_MAX:
            session.close("too many refused requests")
            return
        self._by_peer[peer] += 1
        due_at = trio.current_time() + seconds
        heapq.heappush(self._held, (due_at, next(self._numbers), peer, session, answer))
        self._changed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send answers when they are due, until cancelled; those held then are never sent."""
        task_status.started()
        while True:
            if self._held:
                await self._changed.wait_at_most(max(self._held[0][0] - trio.current_time(), 0))
            else:
                await self._changed.wait()
            while self._held and self._held[0][0] <= trio.current_time():
                _, _, peer, session, answer = heapq.heappop(self._held)
                self._by_peer[peer] -= 1
                if not self._by_peer[peer]:
                    del self._by_peer[peer]
                if answer is not None and session.is_open:
                    session.send(answer)
