"""Tests of group commit: who waits for which sync, deadlines, and syncs that fail."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from small_store import SEGMENT_SIZE
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.commit_log import CommitLog, LogWrite
from timermq.timerstore.disk import File
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.group_commit import GroupCommit


class SlowDisk(MemoryDisk):
    """Syncs end when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = trio.Semaphore(0)
        self.sync_count = 0

    async def sync(self, *files: File) -> None:
        """Sync the files when the test has given a permit."""
        self.sync_count += 1
        await self.permits.acquire()
        self.sync_now(*files)


class Rig:
    """A log on a slow disk."""

    def __init__(self) -> None:
        self.disk = SlowDisk()
        self.disk.make_dirs("/store")
        self.log = CommitLog(self.disk, "/store/commitlog", SEGMENT_SIZE)
        self.flushed: list[int] = []
        self.commit = GroupCommit(self.log, lambda: self.flushed.append(self.log.flushed_where))
        self.results: dict[int, bool] = {}

    def append(self, size: int) -> int:
        """Append bytes; returns their end."""
        end = self.log.max_offset
        self.log.append([] if end else [0], [LogWrite(end, b"x" * size)])
        return end + size

    async def wait(self, end: int, timeout_ms: int = 1000) -> None:
        """Wait as a sender does."""
        self.results[end] = await self.commit.wait_flushed(end, timeout_ms)


@pytest.fixture
def rig() -> Rig:
    """An empty log on a slow disk."""
    return Rig()


async def test_what_is_durable_is_not_waited_for(rig: Rig) -> None:
    """No sync is made for it."""
    await rig.wait(0)

    assert ({0: True}, 0) == (rig.results, rig.disk.sync_count)


async def test_all_who_come_during_a_sync_share_the_next(rig: Rig) -> None:
    """One sync is in flight at a time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.wait, rig.append(10))
        await wait_all_tasks_blocked()
        for _ in range(20):
            nursery.start_soon(rig.wait, rig.append(10))
        await wait_all_tasks_blocked()

        assert rig.disk.sync_count == 1

        rig.disk.permits.release()
        await wait_all_tasks_blocked()

        assert ({10: True}, 2) == (rig.results, rig.disk.sync_count)

        rig.disk.permits.release()

    assert [10, 210] == rig.flushed
    assert len(rig.results) == 21
    assert all(rig.results.values())
    assert rig.commit.flush_count == 2


async def test_a_wait_ends_at_its_deadline(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    """The message stays stored; its sync goes on with the next who waits."""
    await rig.wait(rig.append(10), timeout_ms=1500)

    assert {10: False} == rig.results
    assert trio.current_time() == pytest.approx(1.5)

    rig.disk.permits.release()
    await rig.wait(10)

    assert {10: True} == rig.results


async def test_a_leader_that_is_cancelled_hands_over(rig: Rig) -> None:
    """Those who waited for its sync are not left behind."""
    end = rig.append(10)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as leaders:
                leaders.start_soon(rig.wait, end)
                await wait_all_tasks_blocked()
                nursery.start_soon(rig.wait, end)
                await wait_all_tasks_blocked()
                scope.cancel()
        await wait_all_tasks_blocked()
        rig.disk.permits.release()

    assert {10: True} == rig.results


async def test_a_failed_sync_is_final(rig: Rig) -> None:
    """It is never retried: the kernel may call the lost pages clean."""
    end = rig.append(10)
    rig.disk.fail_syncs_of = lambda path: "commitlog" in path
    for _ in range(5):
        rig.disk.permits.release()

    await rig.wait(end)

    assert rig.commit.failed.is_set()

    rig.disk.fail_syncs_of = lambda _: False
    await rig.wait(end)
    with pytest.raises(StoreFailedError, match=r"^store has failed: "):
        await rig.commit.flush(end)

    assert ({10: False}, 1, []) == (rig.results, rig.disk.sync_count, rig.flushed)


async def test_another_files_failure_counts_too(rig: Rig) -> None:
    """A store fails as a whole."""
    rig.commit.check()

    rig.commit.fail(OSError("lost"))

    assert rig.commit.failed.is_set()
    with pytest.raises(StoreFailedError, match=r"^store has failed: lost$"):
        rig.commit.check()
