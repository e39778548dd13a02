"""A store whose timer log has stretches with outlines: later moments stand further behind."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL, running, timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.stretch_outline import STRETCH_SIZE
from unit.pipeline.spark.store_directories import written

STRETCHES = 3
COUNT = STRETCHES * CHUNK_COUNT + 1000
"""Messages: three stretches, and the front of a fourth."""
PER_SLOT = 100
FIRST_MS = START_MS + 20_000
"""The first message is due a millisecond after it."""
CANCELLED = (5, CHUNK_COUNT + 7, COUNT - 3)
"""Numbers of the messages that were cancelled; their deletes stand at the end of the log."""
EARLY_CANCELLED = (11, 12)
"""Those that were cancelled early: their deletes stand in the first stretch."""
_BATCH = 1024


def moment_ms(number: int) -> int:
    """When a message is due."""
    return FIRST_MS + number // PER_SLOT * 1000 + 1 + number % PER_SLOT


FILES = attrs.evolve(
    SMALL_FILES, mapped_file_size_commit_log=1 << 24, mapped_file_size_consume_queue=2_000_000
)
WHEEL = attrs.evolve(
    SMALL_WHEEL,
    timer_roll_window_slot=2000,
    slots_total=4000,
    mapped_file_size_timer_log=2 * STRETCH_SIZE + 16,
)


async def live(disk: MemoryDisk, count: int = COUNT) -> None:
    """Fill the store with so many messages, in virtual time; it is stopped in order."""
    async with running(disk, VirtualClock(), store_options=FILES, timer_options=WHEEL) as service:
        for first in range(0, count, _BATCH):
            numbers = range(first, min(first + _BATCH, count))
            service.put([timed(f"k{number}", moment_ms(number)) for number in numbers])
            await trio.lowlevel.checkpoint()
            if not first:
                await trio.sleep(1)
                for number in EARLY_CANCELLED:
                    service.cancellation.cancel(Wanted("T", f"k{number}"))
        await trio.sleep(2)
        for number in (one for one in CANCELLED if one < count):
            service.cancellation.cancel(Wanted("T", f"k{number}"))
        await trio.sleep(3)


def outlined_store(directory: Path) -> str:
    """Make it, stopped in order; returns its path."""
    disk = MemoryDisk()
    trio.run(live, disk, clock=MockClock(autojump_threshold=0))
    return written(disk, ROOT, directory)
