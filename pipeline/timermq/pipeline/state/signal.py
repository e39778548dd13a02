"""A wake-up from plain code to one waiting task."""

from __future__ import annotations

import trio


class Signal:
    """Wakes the one task that waits; a ``set`` before the wait is not lost.

    A ``trio.Event`` that can be used again. It carries no data: the woken task looks at the store.
    """

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Let the current or the next ``wait`` return. Plain code, never blocks."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for the next ``set``.

        Cancellation: a ``set`` that came meanwhile stays for the next wait.
        """
        await self._event.wait()
        self._event = trio.Event()

    async def wait_at_most(self, seconds: float) -> bool:
        """Wait for the next ``set``, but not longer than ``seconds``; True if it was set."""
        with trio.move_on_after(seconds):
            await self.wait()
            return True
        return False
