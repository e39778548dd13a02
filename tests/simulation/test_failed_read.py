"""A disk that cannot be read, for a while: the process ends with its error, or does without.

Nothing that is written meanwhile may rest on what was not read: the next process finds everything,
and delivers it once.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import LATER_MS, clock_at, on_disk, serve_on, small_image
from simulation.staged_service import QUIET_FILES, ROOT, SYNCED_FAMILIES, running
from timermq.remoting.causes import causes
from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.file_family import FileFamily

SKIPS = (0, 1, 2, 5, 12, 30)
"""Reads of a family that go well before."""


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("family", SYNCED_FAMILIES)
async def test_the_next_process_has_everything(
    autojump_clock: MockClock, family: FileFamily, stop: bool
) -> None:
    """Whichever read fails, and for how long: a process that saw it leaves nothing wrong behind."""
    image = await small_image(stop=stop)
    expected = await serve_on(on_disk(image), LATER_MS)
    met, ends = 0, list[str]()
    for skip in SKIPS:
        disk = on_disk(image)
        clock = clock_at(LATER_MS)
        disk.now_ms = clock.now_ms
        rule = FaultRule(operations=(Operation.READ,), families=(family,), skip=skip, count=None)
        plan = FaultRules(rule)
        try:
            async with running(
                FaultyDisk(disk, ROOT, plan), clock, store_options=QUIET_FILES, stop=False
            ):
                await trio.sleep(5)
        except* (OSError, StoreFailedError) as errors:
            ends += [str(one) for one in causes(errors)]
        met += bool(plan.struck)
        disk.process_kill()
        assert expected == await serve_on(disk, LATER_MS + 5_000), skip

    assert met
    assert all(one.split(": ")[-2].endswith("Input/output error") for one in ends)
