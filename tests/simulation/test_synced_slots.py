"""A slot of a store with SYNC_FLUSH opens on time, whatever is stored while it waits for a sync."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from fakes import VirtualClock
from simulation.staged_service import SYNC_FILES, arrivals, running, timed
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message

SYNC_SECONDS = 0.005


async def test_a_slot_does_not_wait_for_what_is_stored_behind_its_beginning(
    autojump_clock: MockClock,
) -> None:
    """Messages without a moment are sent all the time: they bring nothing into any slot.

    Of what is stored while the slot waits for its sync nothing tells when it is in its queue.
    """
    clock, disk = VirtualClock(), MemoryDisk()
    disk.sync_seconds = lambda: SYNC_SECONDS
    async with running(disk, clock, store_options=SYNC_FILES) as service:
        slot_ms = (clock.now_ms() // 1000 + 5) * 1000
        moments = [slot_ms + 1, slot_ms + 1_001, slot_ms + 2_001]
        service.put([timed(str(moment_ms), moment_ms) for moment_ms in moments])
        await trio.sleep((slot_ms - 20 - clock.now_ms()) / 1000)
        while clock.now_ms() < moments[-1] + 20:
            service.put([Message("T2", 0, b"at once", b"")])
            await trio.sleep(0.001)
        await trio.sleep(1)
        late_ms = [one.stored_ms - int(one.body) for one in arrivals(service.store)]

    assert len(late_ms) == len(moments)
    assert max(late_ms) <= 4 * SYNC_SECONDS * 1000
