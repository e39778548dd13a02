"""The timer service on a watched clock, in virtual time, as the broker runs it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import attrs

from fakes import VirtualClock
from simulation.staged_service import QUIET_FILES, Arrival, arrivals, running, timed
from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_options import StoreOptions

SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000
WHEEL = TimerOptions(
    timer_roll_window_slot=3_600,
    slots_total=7_200,
    mapped_file_size_timer_log=5_200,
    clock_check_interval_ms=10_000,
    timer_flush_interval_ms=10_000,
)


@attrs.frozen
class Life:
    """A service between a start and a stop."""

    service: TimerMessageStore
    clock: WatchedClock

    def found(self) -> list[Arrival]:
        """What has arrived, in order."""
        return arrivals(self.service.store)

    def bodies(self) -> list[str]:
        """Bodies of what has arrived, in order."""
        return [one.body for one in self.found()]


@contextlib.asynccontextmanager
async def living(
    disk: MemoryDisk,
    wall: VirtualClock,
    *,
    options: TimerOptions = WHEEL,
    files: StoreOptions = QUIET_FILES,
    stop: bool = True,
) -> AsyncGenerator[Life]:
    """A service on a watched clock, as the broker runs it."""
    clock = WatchedClock(wall, options)
    async with running(
        disk, clock, store_options=files, timer_options=options, stop=stop
    ) as service:
        yield Life(service, clock)


def put(life: Life, moments: dict[str, int]) -> None:
    """Store messages for their moments."""
    for body, deliver_ms in moments.items():
        life.service.put([timed(body, deliver_ms)])


def new_disk(wall: VirtualClock) -> MemoryDisk:
    """An empty disk whose files have the times of the wall clock."""
    return MemoryDisk(now_ms=wall.now_ms)
