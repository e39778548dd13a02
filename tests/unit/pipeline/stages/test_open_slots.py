"""The open slots together: what they have read, what has left, where rolls may land."""

from __future__ import annotations

import numpy as np
import trio
import trio.testing

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import SMALL_WHEEL, running, timed
from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.stages.open_slots import OpenSlots
from timermq.simulator.disks.memory_disk import MemoryDisk
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand


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


def test_units_are_read_once_and_seen_when_they_join() -> None:
    """A slot is read up to the newest unit that the wheel shows; a new one makes it unread."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", SLOT_MS + 1))
    slot = rig.slots.get(SLOT_MS)
    assert not rig.slots.is_read(slot)

    trio.run(rig.slots.join, slot)
    assert (rig.slots.is_read(slot), slot.held()) == (True, 1)

    rig.link(timed("b", SLOT_MS + 1))
    assert not rig.slots.is_read(slot)

    trio.run(rig.slots.join, slot)
    trio.run(rig.slots.join, slot)
    assert (rig.slots.is_read(slot), slot.held()) == (True, 2)
    assert rig.slots.get(SLOT_MS) is slot


def test_what_the_last_run_delivered_is_not_read_again() -> None:
    """It is counted as a repeat, and the rest of the slot is as it was."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", SLOT_MS + 1), timed("b", SLOT_MS + 1))
    rig.state.already_done = AlreadyDone(origins=np.array(rig.places()[:1]))
    slot = rig.slots.get(SLOT_MS)
    trio.run(rig.slots.join, slot)

    assert rig.bodies_of(slot.take_due(SLOT_MS + 1, 10)) == ["b"]
    assert rig.counts.repeated == 1


def test_the_oldest_delivery_of_the_open_slots_is_known() -> None:
    """Of those that left in turns; a slot that is closed has none any more."""
    rig = StagesByHand(ManualClock())
    first, second, third = (rig.slots.get(SLOT_MS + 1_000 * n) for n in range(3))
    assert rig.slots.first_sent_py() is None

    second.first_sent_py, third.first_sent_py = 500, 700
    assert rig.slots.first_sent_py() == 500

    rig.slots.close(second)
    assert rig.slots.first_sent_py() == 700

    rig.slots.close(third)
    rig.slots.close(first)
    assert rig.slots.first_sent_py() is None
