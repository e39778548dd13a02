"""A broker whose tasks run beside the fuzzer, on a clock that moves only when it is told to.

A target is plain code that is called with one input after the other, while the tasks of a broker
want a loop that goes on: it runs in a thread, and each input is brought to it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import STORE, TIMER, open_broker
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions

_Value = TypeVar("_Value")

STEPS_MAX = 10_000
"""Deadlines in one move of the clock: more are a task that does not sleep."""


class VirtualRun:
    """One broker from start to end, over a disk in memory; ``end`` it, or it lasts as long as we.

    Args:
        options: Of the broker.
    """

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._clock = MockClock()
        self._ready = threading.Event()
        self._ended = trio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()
        atexit.register(self.end)

    def call(self, work: Callable[[], Awaitable[_Value]]) -> _Value:
        """Let the broker's loop do something; what it raises comes out here."""
        return trio.from_thread.run(work, trio_token=self._token)

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Start a task, as a connection does."""
        self.tasks.start_soon(work)
        return True

    def end(self) -> None:
        """Kill the broker and wait for its thread; again, it does nothing."""
        atexit.unregister(self.end)
        if self._thread.is_alive():
            self._token.run_sync_soon(self._ended.set)
            self._thread.join()

    async def pass_time(self, by_ms: int) -> None:
        """Move the clock, and let everybody do what is due on the way at its moment."""
        end = trio.current_time() + by_ms / 1000
        for _ in range(STEPS_MAX):
            await trio.testing.wait_all_tasks_blocked()
            left = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if trio.current_time() + left > end:
                break
            self._clock.jump(max(left, 0))
        else:
            raise AssertionError("a task does not sleep")
        self._clock.jump(end - trio.current_time())
        await trio.testing.wait_all_tasks_blocked()

    def _run(self) -> None:
        try:
            with capture_logs():
                trio.run(self._serve, clock=self._clock)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.wall = VirtualClock()
        self.broker: Broker = open_broker(
            self.wall, options=self._options, store_options=STORE, timer_options=TIMER
        )
        async with trio.open_nursery() as self.tasks:
            await self.tasks.start(self.broker.run)
            self._ready.set()
            await self._ended.wait()
            self.broker.abort()
            self.tasks.cancel_scope.cancel()
