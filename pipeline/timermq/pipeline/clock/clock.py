"""The clocks as the pipeline sees them.

The wall clock says *when* a message is due; trio's own clock says *how long* to sleep and nothing
about the date. The pipeline reads the time nowhere else, so a test that hands in a clock over
trio's ``MockClock`` lets days pass in milliseconds. A steady clock, which cannot be set, tells
whether the wall clock can be trusted (``clock_watch``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import structlog
import trio

from ..state.timer_options import TimerOptions
from .clock_watch import ClockEvent, ClockEventKind, ClockStatus, ClockWatch

log = structlog.get_logger("timermq.pipeline.clock.clock")

READ_MS = 5.0
"""Longest time between the readings of the two clocks: else somebody stopped us in between."""
READ_COUNT_MAX = 3
LOG_INTERVAL_MS = 10_000
"""A clock that is set again and again fills no log."""

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The source of the pipeline's time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step in both directions, as wall clocks do."""
        ...


class SystemClock:
    """The wall clock of the machine, read at each call."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, rounded down: a message is never due before its time."""
        return time.time_ns() // 1_000_000


def boot_time_ms() -> float:
    """Milliseconds since the machine started, the time that it slept included where that is known.

    So a machine that wakes up has no wall clock that jumped.
    """
    return time.clock_gettime_ns(_BOOT_TIME) / 1e6


def trio_time_ms() -> float:
    """Milliseconds of trio's clock, of which a test may have its own."""
    return trio.current_time() * 1000


class WatchedClock:
    """The wall clock as far as it can be trusted; what happens to it is logged.

    Args:
        wall: The wall clock.
        options: How far a jump is believed.
        steady_ms: A clock that cannot be set, milliseconds.
    """

    def __init__(
        self, wall: Clock, options: TimerOptions, steady_ms: Callable[[], float] = trio_time_ms
    ) -> None:
        self._wall = wall
        self._steady_ms = steady_ms
        self._watch = ClockWatch(
            step_max_ms=options.clock_step_max_ms,
            doubt_ms=options.clock_doubt_ms,
            tell=self._tell,
        )
        self._logged_at = -float(LOG_INTERVAL_MS)

    def now_ms(self) -> int:
        """Epoch milliseconds; at most what the wall clock shows."""
        wall_ms, steady_ms = self._wall.now_ms(), self._steady_ms()
        if self._watch.is_usual(wall_ms, steady_ms):
            return wall_ms
        # Something has happened, if only that we were stopped between the two.
        return self._watch.look(*self._read())

    def begin(self, persisted_ms: int) -> None:
        """Compare the clock with the newest time that the store knows of; 0: none.

        Until then any time is believed.
        """
        wall_ms, steady_ms = self._read()
        if 0 < persisted_ms < wall_ms:
            log.info(
                "clock is ahead of the store, taken as the length of an outage",
                from_ms=persisted_ms,
                to_ms=wall_ms,
                by_ms=wall_ms - persisted_ms,
            )
        self._watch.begin(wall_ms, steady_ms, persisted_ms=persisted_ms)

    def accept(self) -> ClockStatus:
        """Take the wall clock as right."""
        self._watch.look(*self._read())
        self._watch.accept()
        return self._watch.status()

    def status(self) -> ClockStatus:
        """The clock as it is now."""
        self._watch.look(*self._read())
        return self._watch.status()

    def _read(self) -> tuple[int, float]:
        """Both clocks at one moment."""
        before_ms, wall_ms, steady_ms = self._steady_ms(), self._wall.now_ms(), self._steady_ms()
        for _ in range(READ_COUNT_MAX):
            if steady_ms - before_ms < READ_MS:
                break
            before_ms, wall_ms, steady_ms = (
                self._steady_ms(),
                self._wall.now_ms(),
                self._steady_ms(),
            )
        return wall_ms, steady_ms

    def _tell(self, event: ClockEvent) -> None:
        if event.kind is ClockEventKind.STEPPED:
            steady_ms = self._steady_ms()
            if steady_ms - self._logged_at < LOG_INTERVAL_MS:
                return
            self._logged_at = steady_ms
        times = {"from_ms": event.from_ms, "to_ms": event.to_ms, "by_ms": event.by_ms}
        match event.kind:
            case ClockEventKind.STEPPED:
                log.warning("clock stepped", **times)
            case ClockEventKind.UNSAFE:
                log.error("clock is UNSAFE", fault=event.fault, **times)
            case ClockEventKind.SAFE:
                log.warning("clock is SAFE again", fault=event.fault, reason=event.reason, **times)
            case ClockEventKind.DRIFTS:
                log.warning("clock drifts", **times)
