"""A kill, a start, then a power cut: what the killed process left unsynced is synced by then."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import SYNC_FILES, arrivals, running, timed
from small_store import read_bodies
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_options import FlushDiskType

OPTIONS = attrs.evolve(
    SYNC_FILES, mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=100
)


async def send(service: TimerMessageStore, first: int, count: int, deliver_ms: int) -> None:
    """Store timers one by one; with SYNC_FLUSH each is acknowledged."""
    for number in range(first, first + count):
        result = service.put([timed(str(number), deliver_ms)])[0].result
        if service.store.options.is_sync_flush:
            assert await service.store.wait_flushed(result.end)


@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
@pytest.mark.parametrize("seconds", [0, 0.3, 1.5])
@pytest.mark.parametrize("before", [0.0, 1.2])
async def test_what_a_killed_process_left_is_synced_by_the_next(
    autojump_clock: MockClock, flush_disk_type: FlushDiskType, seconds: float, before: float
) -> None:
    """The first flush after a start must not pass over what the page cache held."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    options = attrs.evolve(OPTIONS, flush_disk_type=flush_disk_type)
    moment = START_MS + 10_000
    async with running(disk, clock, store_options=options, stop=False) as service:
        await send(service, 0, 7, moment)
        await trio.sleep(before)
        await send(service, 7, 7, moment)
    disk.process_kill()
    async with running(disk, clock, store_options=options, stop=False) as service:
        # What was stored before the kill is durable as soon as the store is open.
        await trio.sleep(seconds)
        await send(service, 14, 3, moment)
        await service.store.wait_flushed(service.store.commit_log.max_offset)
    disk.power_cut()
    async with running(disk, clock, store_options=options) as service:
        assert service.store.recovery.notes == ()
        await trio.sleep(20)
        found = arrivals(service.store)
        await service.store.flush()
        shown = read_bodies(service.store)

    assert [str(number) for number in range(17)] == [one.body for one in found]
    assert [one.body for one in found] == shown
    assert {moment} == {one.stored_ms for one in found}
