"""Damaged index files: they are dropped, and their keys read from the log again."""

from __future__ import annotations

import errno

import pytest
import trio

from fakes import ManualClock
from small_store import ROOT, message, open_store, small_options
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.index_layout import HEADER
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record

OPTIONS = small_options(max_index_num=5)
"""Four keys fill a file."""

COUNT = 14


def stopped() -> MemoryDisk:
    """A store with four index files."""
    disk = MemoryDisk()
    store = open_store(disk, ManualClock(), OPTIONS)
    for number in range(COUNT):
        store.put([message(f"body {number}", properties=b"KEYS\x01k%d\x02" % number)])
    assert store.index is not None
    store.index.catch_up()
    trio.run(store.aclose)
    return disk


def paths(disk: MemoryDisk) -> list[str]:
    """The index files, oldest first."""
    return [f"{ROOT}/index/{name}" for name in disk.list_dir(f"{ROOT}/index")]


def opened(disk: Disk) -> MessageStore:
    """The store on this disk, opened anew."""
    return open_store(disk, ManualClock(), OPTIONS)


def found(store: MessageStore) -> list[str]:
    """The bodies that the keys find, key by key."""
    return [
        decode_record(record).body.decode()
        for number in range(COUNT)
        for record in store.query("T", f"k{number}", count_max=9)
    ]


ALL = [f"body {number}" for number in range(COUNT)]


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_file_of_another_length(at: int, size: int) -> None:
    """Every key finds its message again."""
    disk = stopped()
    disk.open(paths(disk)[at]).truncate(size)

    assert ALL == found(opened(disk))
    assert 4 == len(paths(disk))


@pytest.mark.parametrize("at", range(4))
def test_a_head_that_says_more_than_its_entries(at: int) -> None:
    """What it says it covers would never be indexed."""
    disk = stopped()
    file = disk.open(paths(disk)[at])
    end = HEADER.offset_of("end_phy_offset")
    file.write(end + 6, bytes([file.read(end + 6, 1)[0] ^ 1]))

    assert ALL == found(opened(disk))


@pytest.mark.parametrize("operation", [Operation.OPEN, Operation.READ])
def test_a_file_that_cannot_be_read(operation: Operation) -> None:
    """Nor is it met by the next start."""
    disk = stopped()
    rule = FaultRule(operations=[operation], name=paths(disk)[1], fault=Fault(errno.EIO))
    store = opened(FaultyDisk(disk, ROOT, FaultRules(rule)))

    assert ALL == found(store)
