"""The staged clock is a clock like the system's, and goes wrong when it is told to."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from timermq.pipeline.clock.clock import Clock, SystemClock
from timermq.simulator.staged.staged_clock import START_MS, StagedClock


@pytest.mark.parametrize("clock", [StagedClock(), SystemClock()])
async def test_a_clock_tells_whole_milliseconds_and_goes_on(clock: Clock) -> None:
    """The time is whole milliseconds, and does not go back unless it is set."""
    first = clock.now_ms()
    second = clock.now_ms()

    assert isinstance(first, int)
    assert 0 <= second - first < 60_000
    assert first > 1_600_000_000_000


async def test_it_follows_trios_clock(autojump_clock: MockClock) -> None:
    """To the millisecond, over years."""
    clock = StagedClock()
    for ms in (1, 999, 86_400_000, 365 * 86_400_000):
        before = clock.now_ms()
        await trio.sleep(ms / 1000)
        assert before + ms == clock.now_ms()


async def test_steps_drift_and_rest(autojump_clock: MockClock) -> None:
    """Sleeps are not affected by any of them."""
    clock = StagedClock()
    clock.step(-5_000)
    assert START_MS - 5_000 == clock.now_ms()
    clock.run_at(2.0)
    await trio.sleep(3)
    assert START_MS + 1_000 == clock.now_ms()
    clock.run_at(0.0)
    await trio.sleep(3)
    assert START_MS + 1_000 == clock.now_ms()
    clock.run_at(1.0)
    await trio.sleep(1)
    assert START_MS + 2_000 == clock.now_ms()
