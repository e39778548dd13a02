"""Too many open files: nothing can be opened or mapped for a while, and all goes on by itself."""

from __future__ import annotations

import errno
from collections import Counter

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.crash_workloads import FILES, WHEEL, Outcome, message
from simulation.staged_service import ROOT, running
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily

OPTIONS = attrs.evolve(FILES, clean_resource_interval_ms=600_000)
"""Nothing is removed."""


@pytest.mark.parametrize("refused_for_ms", [100, 4_000])
@pytest.mark.parametrize("refused_from_ms", [0, 50, 1_050, 3_050])
@pytest.mark.parametrize(
    "family",
    [FileFamily.COMMIT_LOG, FileFamily.CONSUME_QUEUE, FileFamily.TIMER_LOG, FileFamily.INDEX],
)
async def test_no_map_for_a_while(
    autojump_clock: MockClock, family: FileFamily, refused_from_ms: int, refused_for_ms: int
) -> None:
    """A map is a further open file; stages that read go on without one, or come later."""
    clock = VirtualClock()
    rule = FaultRule(
        operations=[Operation.MAP], families=[family], fault=Fault(errno.EMFILE), count=None
    )
    disk = FaultyDisk(MemoryDisk(now_ms=clock.now_ms), ROOT)
    moments = {n: START_MS + 300 + 400 * n for n in range(25)}
    taken = dict[int, int]()
    async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
        for number, at_ms in moments.items():
            if number == 12:
                await trio.sleep(refused_from_ms / 1000)
                disk.plan = FaultRules(rule)
            if service.put([message(number, at_ms)])[0].result.status.is_stored:
                taken[number] = at_ms
        await trio.sleep(refused_for_ms / 1000)
        rule.heal()
        await trio.sleep(30)
        outcome = Outcome.of(service)

    assert 12 <= len(taken)
    assert outcome.faults == []
    assert Counter(dict.fromkeys(taken, 1)) == Counter(number for number, _ in outcome.arrived)
    assert [] == [one for one in outcome.arrived if one[1] < taken[one[0]]]
