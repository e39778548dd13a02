"""The open slots together: where what still rolls may land."""

from __future__ import annotations

import trio.testing

from fakes import START_MS, VirtualClock
from simulation.staged_service import SMALL_WHEEL, running
from timermq.pipeline.stages.open_slots import OpenSlots
from timermq.simulator.disks.memory_disk import MemoryDisk


async def test_a_closed_slot_counts_until_its_rolls_are_written(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Between its closing and the last stage its rolls are under way."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock) as service:
        slots = OpenSlots(
            store=service.store,
            timer_log=service.files.timer_log,
            wheel=service.files.wheel,
            state=service.state,
            options=SMALL_WHEEL,
            counts=service.counts,
        )
        slot_ms = START_MS + 5_000
        slot = slots.get(slot_ms)
        assert slots.rolls_land_ms(slot_ms + 1_000) is None

        slot.roll_ahead_ms = 10_000
        assert slots.rolls_land_ms(slot_ms) is None
        assert slots.rolls_land_ms(slot_ms + 1_000) == slot_ms + 3_000

        slots.close(slot)
        service.state.rolled_ms = slot_ms
        assert slots.rolls_land_ms(slot_ms + 1_000) == slot_ms + 3_000

        service.state.rolled_ms = slot_ms + 1_000
        assert slots.rolls_land_ms(slot_ms + 1_000) is None
