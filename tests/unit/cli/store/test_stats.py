"""What ``timermq store stats`` says of the timers."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from damaged_stores import clock_at
from fakes import START_MS
from simulation.staged_service import QUIET_FILES, ROOT, SMALL_WHEEL, running, timed
from timermq.cli.store.stats import part_rows
from timermq.pipeline.offline_store import open_offline
from timermq.simulator.disks.memory_disk import MemoryDisk

SECOND_MS = 1_000


async def store_with(*deliver_ms: int) -> MemoryDisk:
    """A stopped store in which messages wait for these moments; it rolls what is 20 s ahead."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=QUIET_FILES) as service:
        service.put([timed(f"m{moment}", moment) for moment in deliver_ms])
        await trio.sleep(1)
    return disk


def timer_row(*deliver_ms: int) -> tuple[object, ...]:
    """How many wait, the first moment and the last."""
    disk = trio.run(store_with, *deliver_ms, clock=MockClock(autojump_threshold=0))
    with open_offline(disk, ROOT, QUIET_FILES, SMALL_WHEEL) as offline:
        (row,) = (row for row in part_rows(offline) if row["part"] == "timers")
    return row["count"], row["first_ms"], row["last_ms"]


def test_moments_of_messages_that_roll_are_those_that_they_ask_for() -> None:
    """Their slots are where they roll: earlier, and no moment at which anything arrives."""
    near, far = START_MS + 9_123, START_MS + 50_456

    assert timer_row(near, far) == (2, near, far)
    assert timer_row(far, far + SECOND_MS) == (2, far, far + SECOND_MS)


def test_nothing_waits() -> None:
    """There is no first moment, and no last."""
    assert timer_row() == (0, None, None)
