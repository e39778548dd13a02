"""Messages that are not due soon are linked together; nothing is late by it."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fakes import VirtualClock
from simulation.staged_service import SMALL_WHEEL, arrivals, running, timed
from timermq.simulator.disks.memory_disk import MemoryDisk

LINGER = SMALL_WHEEL.enqueue_linger_ms / 1000


async def test_a_batch_grows(autojump_clock: MockClock) -> None:
    """What comes within the time is linked at its end, and not before."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        await wait_all_tasks_blocked()  # what is there when stage 1 begins is read at once
        for number in range(5):
            service.put([timed(str(number), clock.now_ms() + 10_000)])
            await trio.sleep(LINGER / 10)
        assert service.state.commit_queue_offset == 0
        await trio.sleep(LINGER)
        assert service.state.commit_queue_offset == 5


async def test_what_is_due_soon_is_linked_at_once(autojump_clock: MockClock) -> None:
    """And takes with it what was waiting."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        service.put([timed("late", clock.now_ms() + 10_000)])
        await trio.sleep(LINGER / 2)
        due_ms = clock.now_ms() + 5
        service.put([timed("soon", due_ms)])
        await wait_all_tasks_blocked()
        assert service.state.commit_queue_offset == 2
        await trio.sleep(1)
        assert [(one.body, one.stored_ms) for one in arrivals(service.store)] == [("soon", due_ms)]


async def test_a_slot_does_not_wait_for_a_batch(autojump_clock: MockClock) -> None:
    """Its first message is on time, whatever was sent just before it begins."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        slot_ms = (clock.now_ms() // 1000 + 5) * 1000
        service.put([timed("first", slot_ms + 1)])
        await trio.sleep((slot_ms - 2 - clock.now_ms()) / 1000)
        service.put([timed("other", slot_ms + 30_000)])
        await trio.sleep(1)
        assert [one.stored_ms for one in arrivals(service.store)] == [slot_ms + 1]
