"""The timer service after an outage that is longer than its window, or than its wheel."""

from __future__ import annotations

import random

import pytest
import structlog.testing
import trio

from fakes import START_MS, VirtualClock
from simulation.watched_service import (
    DAY_MS,
    HOUR_MS,
    living,
    new_disk,
    put,
)
from timermq.pipeline.clock.clock_watch import ClockState
from timermq.pipeline.state.timer_options import TimerOptions


@pytest.mark.parametrize("down_ms", [2 * HOUR_MS, 6 * HOUR_MS])
@pytest.mark.parametrize("stop", [True, False])
async def test_an_outage_longer_than_the_window_or_the_wheel(
    autojump_clock: trio.testing.MockClock, down_ms: int, stop: bool
) -> None:
    """What was due meanwhile goes out at once, in the order of its moments, rolled or not."""
    wall = VirtualClock()
    disk = new_disk(wall)
    draw = random.Random(7)
    moments = {f"m{n}": START_MS + draw.randint(10_000, 3 * HOUR_MS) for n in range(200)}
    async with living(disk, wall, stop=stop) as life:
        put(life, moments)
        await trio.sleep(1)
    if not stop:
        disk.process_kill()
    wall.step(down_ms)
    due = [one for one in moments if moments[one] <= wall.now_ms()]
    async with living(disk, wall, stop=stop) as life:
        await trio.sleep(10)
        at_once = life.bodies()
        await trio.sleep(HOUR_MS / 1_000)
        found = life.bodies()

    assert sorted(due, key=moments.__getitem__) == at_once[: len(due)]
    assert sorted(moments, key=moments.__getitem__) == found


async def test_an_outage_longer_than_the_wheel(autojump_clock: trio.testing.MockClock) -> None:
    """Killed, ten days down, a wheel of seven: what is due in its order, the rest in its time."""
    wall = VirtualClock()
    disk = new_disk(wall)
    options = TimerOptions(
        timer_max_delay_sec=30 * 86_400,
        clock_check_interval_ms=HOUR_MS,
        timer_flush_interval_ms=HOUR_MS,
    )
    draw = random.Random(10)
    moments = {f"m{n}": START_MS + draw.randint(10_000, 14 * DAY_MS) for n in range(400)}
    async with living(disk, wall, options=options, stop=False) as life:
        put(life, moments)
        await trio.sleep(2)
    disk.process_kill()
    wall.step(10 * DAY_MS)
    with structlog.testing.capture_logs() as logs:
        async with living(disk, wall, options=options) as life:
            state = life.clock.status().state
            await trio.sleep(60)
            due = life.bodies()
            now_ms = wall.now_ms()
            await trio.sleep(5 * 86_400)
            found = life.found()

    outage = [
        one["by_ms"] for one in logs if one["event"].startswith("clock is ahead of the store")
    ]
    assert [True] == [abs(by_ms - 10 * DAY_MS) < 5_000 for by_ms in outage]
    assert ClockState.SAFE == state
    assert due == sorted(
        (one for one, moment_ms in moments.items() if moment_ms <= now_ms), key=moments.__getitem__
    )
    assert sorted(moments) == sorted(one.body for one in found)
    assert [one for one in found if one.stored_ms < moments[one.body]] == []
