"""A sync that fails once and succeeds afterwards: the store stops, and the next one is not misled.

After a failed sync the page cache may show as clean what is not on the disk, and it goes on doing
so when the process has ended: only a power cut tells. So each test has three lives: in the first a
sync fails, the second finds what the page cache shows and takes messages, the third finds what the
disk has.
"""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.crash_workloads import Outcome, message
from simulation.staged_service import ROOT, SYNC_FILES, SYNCED_FAMILIES, running
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.file_family import FileFamily

FILES = attrs.evolve(
    SYNC_FILES,
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=1 << 15,
    max_hash_slot_num=4_000,
    max_index_num=4_000,
    index_flush_interval_ms=600,
    file_reserved_time_hours=8760,
)
WHEEL = TimerOptions(
    timer_precision_ms=100,
    timer_roll_window_slot=900,
    slots_total=1_200,
    mapped_file_size_timer_log=1 << 16,
    timer_flush_interval_ms=700,
)
"""Files of many pages: what one sync holds is more than what the next process writes again by
chance, because it appends to the same page."""

BATCH = 40
"""Messages of one put, a tenth of a second apart: each has a slot of its own, so that the wheel has
pages too."""


async def send(service: TimerMessageStore, first: int) -> list[int]:
    """Send a batch; the numbers of those that were acknowledged."""
    numbers = range(first, first + BATCH)
    results = service.put([message(one, START_MS + 6_000 + 100 * one) for one in numbers])
    await trio.sleep(0.25)
    if results[-1].result.status.is_stored:
        is_flushed = await service.store.wait_flushed(results[-1].result.end)
        return list(numbers) if is_flushed else []
    return []


@pytest.mark.parametrize("family", SYNCED_FAMILIES)
@pytest.mark.parametrize("second_life", [0.0, 1.5])
async def test_the_next_process_does_not_believe_the_page_cache(
    autojump_clock: MockClock, family: FileFamily, second_life: float
) -> None:
    """What the second life acknowledges is there in the third, behind what the first one left."""
    clock = VirtualClock()
    memory = MemoryDisk(now_ms=clock.now_ms)
    plan = FaultRules(FaultRule(operations=[Operation.SYNC], families=[family], skip=2))
    disk = FaultyDisk(memory, ROOT, plan)
    acknowledged: list[int] = []
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the life ends somewhere in it
        async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
            for number in range(0, 12 * BATCH, BATCH):
                acknowledged += await send(service, number)
    memory.process_kill()
    new = 12 * BATCH
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        acknowledged += await send(service, new)
        await trio.sleep(second_life)
    memory.power_cut()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        found = service.cancellation.cancel(Wanted("T", str(new)))
        await trio.sleep(6 + 0.1 * 13 * BATCH)
        await service.store.flush()
        outcome = Outcome.of(service)
    arrived = [number for number, _ in outcome.arrived]

    assert [Operation.SYNC] == [one.operation for one in plan.struck]
    assert caught.value.split(StoreFailedError)[1] is None
    assert outcome.faults == []
    assert Verdict.CANCELLED is found.verdict
    assert len(arrived) == len(set(arrived))
    assert set(range(new, new + BATCH)) <= set(acknowledged)
    assert set(acknowledged) - {new} - set(arrived) == set()
