"""Tests of the checksums beside configuration files."""

from __future__ import annotations

from contextlib import suppress

import pytest

from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import read_bytes
from timermq.timerstore.config_seal import save_sealed_now, sealed_bytes

ROOT = "/store"
PATH = f"{ROOT}/config/a.json"


@pytest.mark.parametrize("count", range(16))
def test_saves_of_a_millisecond_whose_seals_a_power_cut_takes(count: int) -> None:
    """The seal of the first is not taken for that of the last, wherever the power goes."""
    disk = MemoryDisk(now_ms=lambda: 5)
    save_sealed_now(disk, PATH, '{"a": 1}')
    disk.sync_now(disk.open(f"{PATH}.sum"))
    for text, rule in (
        ('{"a": 2, "b": 3}', FaultRule(operations=[Operation.OPEN], name=".sum.tmp")),
        ('{"a": 4, "b": 5}', FaultRule(operations=frozenset(Operation), skip=count, count=None)),
    ):
        with suppress(OSError):
            save_sealed_now(FaultyDisk(disk, ROOT, FaultRules(rule)), PATH, text)
    disk.power_cut()

    assert sealed_bytes(disk, PATH) == read_bytes(disk, PATH)
