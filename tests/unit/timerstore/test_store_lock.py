"""Tests of the lock and abort files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from descriptors import open_count
from timermq.simulator.disks.fault_plan import TAKING_SPACE, Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def content(disk: MemoryDisk, path: str) -> bytes:
    """All bytes of a small file on the disk."""
    return disk.open(path).read(0, 100)


def test_one_process_a_store(disk: MemoryDisk) -> None:
    """The second one is refused until the first gives the store up."""
    first, second = StoreLock(disk, "/store"), StoreLock(disk, "/store")
    first.take()
    with pytest.raises(StoreLockedError) as error:
        second.take()
    first.release()
    first.release()
    second.take()

    assert str(error.value) == "/store/lock: held by another running broker"
    assert content(disk, "/store/lock") == b"lock"


def test_a_store_that_never_ran_ended_well(disk: MemoryDisk) -> None:
    """There is nothing to recover in a new directory."""
    assert StoreLock(disk, "/store").last_exit_ok


@pytest.mark.parametrize("fault", ["kill", "power"])
def test_a_cut_off_run_is_seen(disk: MemoryDisk, fault: str) -> None:
    """After a kill or a power cut the next start knows, from the instant it ran."""
    lock = StoreLock(disk, "/store")
    lock.take()
    lock.mark_running(12345)
    if fault == "power":
        disk.power_cut()
    else:
        disk.process_kill()
    after = StoreLock(disk, "/store")

    assert not after.last_exit_ok
    assert content(disk, "/store/abort") == b"12345"

    after.take()
    after.mark_running(99)

    assert content(disk, "/store/abort") == b"99"


def test_a_clean_stop_is_durable(disk: MemoryDisk) -> None:
    """After ``mark_clean`` even a power cut does not ask for a recovery."""
    lock = StoreLock(disk, "/store")
    lock.take()
    lock.mark_running(1)
    lock.mark_clean()
    lock.release()
    disk.power_cut()

    assert StoreLock(disk, "/store").last_exit_ok


def test_a_full_disk_takes_the_names(disk: MemoryDisk) -> None:
    """What is written in the two is for people; that they are there says that a broker runs."""
    rule = FaultRule(operations=TAKING_SPACE, fault=Fault(errno.ENOSPC), count=None)
    lock = StoreLock(FaultyDisk(disk, "/store", FaultRules(rule)), "/store")
    lock.take()
    lock.mark_running(12345)
    disk.power_cut()

    assert not StoreLock(disk, "/store").last_exit_ok
    assert content(disk, "/store/abort") == bytes(5)


def test_no_name_no_start(disk: MemoryDisk) -> None:
    """Where the file itself cannot be made, the error names it."""
    rule = FaultRule(operations=[Operation.OPEN], name="abort", fault=Fault(errno.ENOSPC))
    lock = StoreLock(FaultyDisk(disk, "/store", FaultRules(rule)), "/store")
    lock.take()
    with pytest.raises(OSError, match="/store/abort"):
        lock.mark_running(12345)


def test_another_error_is_no_full_disk(disk: MemoryDisk) -> None:
    """A broken disk is not worked on."""
    rule = FaultRule(operations=[Operation.WRITE], name="abort")
    lock = StoreLock(FaultyDisk(disk, "/store", FaultRules(rule)), "/store")
    lock.take()
    with pytest.raises(OSError, match="/store/abort"):
        lock.mark_running(12345)


@pytest.mark.parametrize("operation", [Operation.OPEN, Operation.WRITE])
def test_a_lock_that_cannot_be_named_is_given_back(tmp_path: Path, operation: Operation) -> None:
    """Too many files, or a disk that fails: the next try finds no process that holds it."""
    rule = FaultRule(operations=[operation], fault=Fault(errno.EMFILE))
    disk = FaultyDisk(OsDisk(), str(tmp_path), FaultRules(rule))
    before = open_count()
    with pytest.raises(OSError, match="Too many open files"):
        StoreLock(disk, str(tmp_path)).take()
    left = open_count()
    again = StoreLock(disk, str(tmp_path))
    again.take()
    again.release()

    assert before == left == open_count()


@pytest.mark.parametrize("operation", [Operation.TRUNCATE, Operation.WRITE, Operation.SYNC])
def test_no_file_stays_open_when_a_run_cannot_be_marked(
    tmp_path: Path, operation: Operation
) -> None:
    """The start fails, and may be retried in the same process."""
    disk = FaultyDisk(OsDisk(), str(tmp_path), FaultRules(FaultRule(operations=[operation])))
    before = open_count()
    with pytest.raises(OSError, match="Input/output error"):
        StoreLock(disk, str(tmp_path)).mark_running(7)

    assert before == open_count()
