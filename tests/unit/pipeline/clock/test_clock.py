"""The clocks of a machine, and the watch that logs what happens to them."""

from __future__ import annotations

import pytest
import structlog.testing

from fakes import START_MS, ManualClock
from timermq.pipeline.clock.clock import SystemClock, WatchedClock, boot_time_ms
from timermq.pipeline.state.timer_options import TimerOptions

HOUR_MS, YEAR_MS = 3_600_000, 365 * 86_400_000


class SteadyClock:
    """Milliseconds that go on when they are told to; a reading may take some."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self.slow_ms: list[float] = []

    def __call__(self) -> float:
        """Milliseconds of the clock, after the next delay that is set for it."""
        if self.slow_ms:
            self.time_ms += self.slow_ms.pop()
        return self.time_ms


def both(wall: ManualClock, steady: SteadyClock, elapsed_ms: int, step_ms: int = 0) -> None:
    """Time goes by, and the wall clock is set."""
    steady.time_ms += elapsed_ms
    wall.time_ms += elapsed_ms + step_ms


def test_clocks_of_the_machine() -> None:
    """The wall clock is after this was written; the steady one does not go back."""
    first, second = boot_time_ms(), boot_time_ms()

    assert SystemClock().now_ms() > START_MS
    assert 0 < first <= second


def test_what_happens_is_logged() -> None:
    """Each step with from, to and by; the state when it changes, with the fault."""
    wall, steady = ManualClock(), SteadyClock()
    clock = WatchedClock(wall, TimerOptions(), steady)
    clock.begin(0)
    with structlog.testing.capture_logs() as logs:
        both(wall, steady, 20_000, 2_000)
        clock.now_ms()
        both(wall, steady, 20_000, YEAR_MS)
        clock.now_ms()
        clock.accept()

    assert [
        ("warning", "clock stepped", 2_000, None),
        ("error", "clock is UNSAFE", YEAR_MS, "forward"),
        ("warning", "clock stepped", YEAR_MS, None),
        ("warning", "clock is SAFE again", 0, "forward"),
    ] == [(one["log_level"], one["event"], one["by_ms"], one.get("fault")) for one in logs]
    assert (START_MS + 20_000, START_MS + 22_000) == (logs[0]["from_ms"], logs[0]["to_ms"])


def test_many_steps_fill_no_log() -> None:
    """They are counted; at most one line in ten seconds says so."""
    wall, steady = ManualClock(), SteadyClock()
    clock = WatchedClock(wall, TimerOptions(), steady)
    clock.begin(0)
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            both(wall, steady, 1_000, 500)
            clock.now_ms()

    assert 100 == clock.status().steps_forward
    assert 10 == len(logs)


@pytest.mark.parametrize("slow_ms", [[0.0, 7_200_000.0, 0.0], [7_200_000.0, 0.0, 7_200_000.0, 0.0]])
def test_a_process_stopped_between_two_readings(slow_ms: list[float]) -> None:
    """The clocks are read again, so that no step is seen where there is none."""
    steady = SteadyClock()

    class Wall(ManualClock):
        def now_ms(self) -> int:
            return START_MS + int(steady.time_ms)

    clock = WatchedClock(Wall(), TimerOptions(), steady)
    clock.begin(0)
    steady.slow_ms = slow_ms
    clock.now_ms()

    assert (0, 0) == (clock.status().steps_forward, clock.status().steps_backward)


def test_the_steady_clock_is_read_once_while_nothing_happens() -> None:
    """Each batch asks for the time some times, so it must cost little."""
    wall, readings = ManualClock(), list[int]()

    def steady_ms() -> float:
        readings.append(wall.time_ms)
        return float(wall.time_ms)

    clock = WatchedClock(wall, TimerOptions(), steady_ms)
    clock.begin(0)
    readings.clear()
    for _ in range(10):
        wall.time_ms += 7
        clock.now_ms()

    assert 10 == len(readings)


def test_an_outage_is_said() -> None:
    """A clock that is ahead of the store is believed, and the length of the outage is logged."""
    wall, steady = ManualClock(), SteadyClock()
    clock = WatchedClock(wall, TimerOptions(), steady)
    with structlog.testing.capture_logs() as logs:
        clock.begin(START_MS - YEAR_MS)

    assert [YEAR_MS] == [one["by_ms"] for one in logs]
    assert START_MS == clock.now_ms()


@pytest.mark.parametrize("doubt_ms", [0, 1])
def test_without_doubt(doubt_ms: int) -> None:
    """With 0 any jump forward is believed at once, as RocketMQ does."""
    wall, steady = ManualClock(), SteadyClock()
    clock = WatchedClock(wall, TimerOptions(clock_doubt_ms=doubt_ms), steady)
    clock.begin(0)
    both(wall, steady, 10, 2 * HOUR_MS)

    assert START_MS + 10 + (0 if doubt_ms else 2 * HOUR_MS) == clock.now_ms()
