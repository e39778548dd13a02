"""A stop in order: what RocketMQ will find of the slot in which it comes."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from fakes import START_MS, VirtualClock
from simulation.staged_service import QUIET_FILES, ROOT, SMALL_WHEEL, arrivals, running, timed
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import TimerCheckpoint

WHEEL = attrs.evolve(SMALL_WHEEL, timer_roll_window_slot=6)
SLOT_MS = START_MS + 5_000


@pytest.mark.parametrize(
    ("after_s", "arrived", "read_ms"),
    [
        (4.9, [], SLOT_MS - 1_000),
        (5.1, [], SLOT_MS),
        (5.5, [5_300, 5_700], SLOT_MS + 1_000),
        (5.9, [5_300, 5_700], SLOT_MS + 1_000),
    ],
)
async def test_closes_the_slot_of_which_something_has_left(
    autojump_clock: trio.testing.MockClock, after_s: float, arrived: list[int], read_ms: int
) -> None:
    """It waits for the end of that slot: RocketMQ would deliver again what has left of it."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=QUIET_FILES, timer_options=WHEEL) as service:
        for after_ms in (5_300, 5_700, 6_200):
            service.put([timed(str(after_ms), START_MS + after_ms)])
        await trio.sleep(after_s)
        service.request_stop()
        await trio.sleep(1.2)
        found = [one.stored_ms - START_MS for one in arrivals(service.store)]
    checkpoint = TimerCheckpoint.open(disk, f"{ROOT}/config/timercheck", read_only=True)

    assert arrived == found
    assert read_ms == checkpoint.last_read_time_ms


async def test_does_not_wait_for_a_clock_that_was_set_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The slot would not be over for an hour."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=QUIET_FILES, timer_options=WHEEL) as service:
        service.put([timed("a", START_MS + 5_300), timed("b", START_MS + 5_700)])
        await trio.sleep(5.5)
        clock.step(-3_600_000)
        begin = trio.current_time()
    assert trio.current_time() - begin < 1
