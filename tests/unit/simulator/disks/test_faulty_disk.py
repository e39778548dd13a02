"""A disk whose operations fail as a plan says."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from random import Random

import pytest

from timermq.simulator.disks.fault_plan import (
    TAKING_SPACE,
    Fault,
    FaultDraw,
    FaultRule,
    FaultRules,
    Operation,
)
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily

PATH = "/s/commitlog/0"


def new_disk(*rules: FaultRule) -> FaultyDisk:
    """A disk with the durable and empty file ``PATH`` whose faults are yet to come."""
    memory = MemoryDisk()
    memory.make_dirs("/s/commitlog")
    memory.open(PATH, create=True)
    memory.sync_dir_now("/s/commitlog")
    return FaultyDisk(memory, "/s", FaultRules(*rules))


def content(disk: FaultyDisk) -> bytes:
    """What the disk below has at ``PATH``."""
    file = disk.inner.open(PATH)
    return file.read(0, file.size())


def power_cut(disk: FaultyDisk) -> None:
    """Cut the power of the disk below."""
    assert isinstance(disk.inner, MemoryDisk)
    disk.inner.power_cut()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_sync_fails_once_and_has_lost_what_it_held(is_async: bool) -> None:
    """As on Linux: the next sync succeeds, though the pages are not on the disk."""
    disk = new_disk(FaultRule(operations=[Operation.SYNC]))
    file = disk.open(PATH)
    file.write(0, b"lost")

    async def sync() -> None:
        if is_async:
            await disk.sync(file)
        else:
            disk.sync_now(file)

    with pytest.raises(OSError, match="Input/output error") as error:
        await sync()
    file.write(5000, b"kept")
    disk.sync_now(file)
    shown = content(disk)
    power_cut(disk)

    assert (errno.EIO, PATH) == (error.value.errno, error.value.filename)
    assert b"lost".ljust(5000, b"\0") + b"kept" == shown
    assert bytes(5000) + b"kept" == content(disk)


def test_what_is_synced_before_the_one_that_fails_is_durable() -> None:
    """A sync of several files goes on in order until one fails."""
    disk = new_disk(FaultRule(operations=[Operation.SYNC], skip=1))
    first, second = disk.open(PATH), disk.open("/s/commitlog/1", create=True)
    disk.sync_dir_now("/s/commitlog")
    first.write(0, b"a")
    second.write(0, b"b")
    with pytest.raises(OSError, match="commitlog/1"):
        disk.sync_now(first, second)
    power_cut(disk)

    assert b"a" == content(disk)
    assert 0 == disk.inner.open("/s/commitlog/1").size()


def test_a_short_write() -> None:
    """The first bytes are there, and the caller is told that not all of them are."""
    rule = FaultRule(operations=[Operation.WRITE], fault=Fault(errno.ENOSPC, written=3))
    disk = new_disk(rule)
    file = disk.open(PATH)
    with pytest.raises(OSError, match="No space left"):
        file.write(2, b"abcdef")
    begun = content(disk)
    file.write(2, b"abcdef")

    assert b"\0\0abc" == begun
    assert b"\0\0abcdef" == content(disk)


@pytest.mark.parametrize(
    "operation", sorted(frozenset(Operation) - {Operation.SYNC, Operation.MAP}, key=str)
)
def test_whatever_fails_changes_nothing(operation: Operation) -> None:
    """Each operation can fail, and works the next time."""
    disk = new_disk()
    file = disk.open(PATH)
    work: Callable[[], object] = {
        Operation.OPEN: lambda: disk.open(PATH),
        Operation.READ: lambda: file.read(0, 1),
        Operation.WRITE: lambda: file.write(0, b"x"),
        Operation.ALLOCATE: lambda: file.allocate(10),
        Operation.TRUNCATE: lambda: file.truncate(10),
        Operation.SYNC_DIR: lambda: disk.sync_dir_now("/s/commitlog"),
        Operation.RENAME: lambda: disk.rename(PATH, "/s/commitlog/1"),
        Operation.REMOVE: lambda: disk.remove(PATH),
        Operation.MAKE_DIRS: lambda: disk.make_dirs("/s/index"),
    }[operation]
    plan = FaultRules(FaultRule(operations=[operation]))
    disk.plan = plan
    with pytest.raises(OSError, match="Input/output error"):
        work()
    after = (disk.list_dir("/s"), disk.list_dir("/s/commitlog"), content(disk))
    work()

    assert (["commitlog"], ["0"], b"") == after
    assert [operation] == [one.operation for one in plan.struck]


def test_a_map_is_refused_once() -> None:
    """Without a map the file can be read; a map that is there needs nothing of the disk."""
    disk = new_disk()
    file = disk.open(PATH)
    file.write(0, b"abc")
    disk.plan = FaultRules(FaultRule(operations=[Operation.MAP], fault=Fault(errno.EMFILE)))
    with pytest.raises(OSError, match="Too many open files") as error:
        file.map()
    view = file.map()
    disk.plan = FaultRules(FaultRule(operations=[Operation.MAP], count=None))

    assert errno.EMFILE == error.value.errno
    assert b"abc" == file.read(0, 3) == view[:] == file.map()[:]


def test_a_rule_names_files_and_numbers() -> None:
    """Only what it speaks of is counted; what has healed goes well."""
    rule = FaultRule(
        operations=TAKING_SPACE,
        families=[FileFamily.COMMIT_LOG],
        name="0",
        fault=Fault(errno.ENOSPC),
        skip=1,
        count=None,
    )
    disk = new_disk(rule)
    plan = disk.plan
    assert isinstance(plan, FaultRules)
    file, other = disk.open(PATH), disk.open("/s/commitlog/1", create=True)
    failed: list[int] = []
    for number in range(4):
        other.write(0, b"x")
        try:
            file.write(number, b"x")
        except OSError:
            failed.append(number)
    plan.heal()
    file.write(1, b"x")

    assert [1, 2, 3] == failed
    assert [1, 2, 3] == [one.offset for one in plan.struck]
    assert {FileFamily.COMMIT_LOG} == {one.family for one in plan.struck}


def drawn(seed: int) -> list[int]:
    """Which of a hundred writes fail, and how much of each is written."""
    disk = new_disk()
    disk.plan = plan = FaultDraw(Random(seed), {Operation.WRITE: 0.3})
    file = disk.open(PATH)
    for number in range(100):
        with contextlib.suppress(OSError):
            file.write(10 * number, b"x" * 10)
    return [one.offset + content(disk)[one.offset :][:10].count(b"x") for one in plan.struck]


def test_a_seed_decides() -> None:
    """The same seed gives the same faults, another one others; short writes among them."""
    found = drawn(1)

    assert found == drawn(1)
    assert found != drawn(2)
    assert 10 < len(found) < 50
    assert {0, 5} < {one % 10 for one in found}


def test_only_the_named_files_fail_by_chance() -> None:
    """Other families and operations are never hit."""
    disk = new_disk()
    disk.plan = plan = FaultDraw(
        Random(1), {Operation.WRITE: 1.0}, families=[FileFamily.INDEX], error=errno.ENOSPC
    )
    disk.open(PATH).write(0, b"x")
    disk.make_dirs("/s/index")
    index = disk.open("/s/index/1", create=True)
    with pytest.raises(OSError, match="No space left"):
        index.write(0, b"x")

    assert ["/s/index/1"] == [one.path for one in plan.struck]
