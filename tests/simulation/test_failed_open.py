"""Starts that fail, retried in one process: none leaves a file open, or the lock held."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from trio.testing import MockClock

from damaged_stores import LATER_MS, clock_at, small_image
from descriptors import open_count
from simulation.staged_service import HOST, ROOT, SMALL_FILES, SMALL_WHEEL
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.disk_damage import write_image
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk

OPERATIONS = (
    Operation.OPEN,
    Operation.MAP,
    Operation.READ,
    Operation.WRITE,
    Operation.TRUNCATE,
    Operation.SYNC,
    Operation.SYNC_DIR,
)


def start(disk: FaultyDisk, root: str) -> None:
    """Open store and timer files, and leave them as a kill does."""
    clock = clock_at(LATER_MS)
    store = MessageStore.open(disk, root, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)
    try:
        TimerMessageStore(store, SMALL_WHEEL, clock).files.close()
    finally:
        store.abandon()


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_file_stays_open(
    autojump_clock: MockClock, tmp_path: Path, operation: Operation
) -> None:
    """Whichever file is refused: the first, one in the middle, or the last of them."""
    root = str(tmp_path / "store")
    image = await small_image(stop=False)
    write_image(OsDisk(), {path.replace(ROOT, root, 1): data for path, data in image.items()})
    disk = FaultyDisk(OsDisk(), root)
    before, failed, left = open_count(), 0, dict[int, int]()
    for skip in (*range(6), 8, 11, 15, 20, 26, 33, 41, 60, 90):
        rule = FaultRule(operations=[operation], fault=Fault(errno.EMFILE), skip=skip)
        disk.plan = plan = FaultRules(rule)
        try:
            start(disk, root)
        except OSError:
            failed += 1
        if open_count() != before:
            left[skip] = open_count() - before
            break
        if not plan.struck:
            break

    assert {} == left
    assert failed
