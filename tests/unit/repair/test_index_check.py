"""Tests of the check of the index against the log."""

from __future__ import annotations

import trio

from small_store import ROOT, message, open_store, small_options
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import Severity
from timermq.simulator.disks.memory_disk import MemoryDisk


def test_an_index_that_is_behind() -> None:
    """A store whose index does not reach the log's end is sound: the next start goes on there."""
    disk = MemoryDisk()
    store = open_store(disk)
    store.put([message(str(n), properties=b"UNIQ_KEY\x01k%d\x02" % n) for n in range(9)])
    trio.run(store.aclose)
    disk.remove(f"{ROOT}/index/{disk.list_dir(f'{ROOT}/index')[-1]}")
    found = CheckedStore(
        disk=disk,
        root=ROOT,
        store_options=small_options(),
        timer_options=TimerOptions(slots_total=10),
        now_ms=0,
    ).find()

    assert {"index": Severity.NOTE} == {
        one.file: one.severity for one in found if one.file != "checkpoint"
    }
