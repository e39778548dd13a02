"""A stage that dies stops the service, and the service says of what: nothing hides the cause."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_WHEEL, running, timed
from timermq.remoting.causes import causes
from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily

MANY_BATCHES = attrs.evolve(SMALL_WHEEL, enqueue_batch_count_max=1)
COUNT = 10


@pytest.mark.parametrize("skip", range(8))
async def test_the_cause_is_told(autojump_clock: MockClock, skip: int) -> None:
    """A unit cannot be written while more come; the stage before it adds no error of its own."""
    clock = VirtualClock()
    plan = FaultRules()
    disk = FaultyDisk(MemoryDisk(now_ms=clock.now_ms), ROOT, plan)
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the life ends somewhere in it
        async with running(disk, clock, timer_options=MANY_BATCHES) as service:
            plan.rules.append(
                FaultRule(operations=[Operation.WRITE], families=[FileFamily.TIMER_LOG], skip=skip)
            )
            service.put([timed(f"m{nth}", START_MS + 1_500) for nth in range(COUNT)])
            await trio.sleep(3)

    assert [FileFamily.TIMER_LOG] == [one.family for one in plan.struck]
    assert ["OSError"] == [type(one).__name__ for one in causes(caught.value)]
