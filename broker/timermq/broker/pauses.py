"""Work on requests pauses again and again, so that all other work gets on.

A message that is due passes through six tasks, each in a turn of the event loop of its own, and
through twice as many when it meets the one before it. All other work in each of these turns
makes it late. So the tasks that work for clients (``reactor``, ``round_robin``) count their time
together, and behind so much of it none of them works for some turns. Held pulls have pauses of
their own: due messages leave through them.

Rounds of sends do not count: they are bounded in themselves, and what a broker is for. The
stages would go through more and smaller batches, for a tenth of a producer's rate.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

WORK_SECONDS = 0.005
"""How long requests are worked on between two pauses, and one step more."""
FREE_SHARE = 1 / 8
"""Part of the time for which they may be worked on without: consumers that keep up take less."""
PAUSE_TURNS = 12
"""Turns of the event loop that a pause is."""


class Pauses:
    """The time that requests have taken since the last pause, and the pauses.

    Args:
        work_seconds: What this thread has worked so far: its time on the processor, not that for
            which others had it.
    """

    def __init__(self, work_seconds: Callable[[], float]) -> None:
        self._work_seconds = work_seconds
        self._worked = 0.0
        """Seconds of work since the last pause, less the free share of the time that has passed."""
        self._seen_at = 0.0
        """trio's time of the last step."""
        self._lock = trio.Lock()
        """Held for a step and the pause behind it; who waits for it has it in order of arrival."""

    async def work(self, step: Callable[[], bool | None]) -> None:
        """Take one step of work on requests, behind the pause that is now; pause if it is time.

        Args:
            step: Works; False when its time is not to count.

        Cancellation: the step is done or it is not; a pause ends for all tasks.
        """
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            began = self._work_seconds()
            if step() is not False:
                self._worked += self._work_seconds() - began
            now = trio.current_time()
            self._worked = max(self._worked - (now - self._seen_at) * FREE_SHARE, 0.0)
            self._seen_at = now
            if self._worked >= WORK_SECONDS:
                self._worked = 0.0
                for _ in range(PAUSE_TURNS):
                    await trio.lowlevel.checkpoint()
        finally:
            self._lock.release()
