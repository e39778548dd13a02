"""Tests of the table of consume queues."""

from __future__ import annotations

import pytest
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.queue_unit import UNIT


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def new_table(disk: MemoryDisk) -> ConsumeQueueTable:
    """A table on the disk that is not recovered yet."""
    return ConsumeQueueTable(disk, "/store", segment_size=100, read_only=False)


def recovered(disk: MemoryDisk) -> dict[tuple[str, int], int]:
    """Queues that are found on the disk, and where they end."""
    table = new_table(disk)
    table.recover()
    return {(queue.topic, queue.queue_id): queue.max_offset for queue in table}


def append(table: ConsumeQueueTable, topic: str, queue_id: int, count: int = 1) -> ConsumeQueue:
    """Append units to a queue, as the dispatcher does."""
    queue = table.find_or_create(topic, queue_id)
    for _ in range(count):
        number = queue.max_offset
        queue.append(number, UNIT.pack(number * 10, 10, 0), number * 10 + 10)
    table.mark_dirty(queue)
    return queue


def test_a_queue_is_made_once(disk: MemoryDisk) -> None:
    """All callers get the same queue."""
    table = new_table(disk)

    assert table.get("T", 0) is None

    queue = table.find_or_create("T", 0)

    assert queue is table.get("T", 0) is table.find_or_create("T", 0)
    assert (1, [queue]) == (len(table), list(table))


def test_queues_are_found_by_their_directories(disk: MemoryDisk) -> None:
    """What else lies around is not looked at."""
    table = new_table(disk)
    append(table, "T", 0, 3)
    append(table, "T", 7, 6)
    append(table, "U", 1, 1)
    disk.make_dirs("/store/consumequeue/T/backup")
    disk.open("/store/consumequeue/note", create=True)

    assert recovered(disk) == {("T", 0): 3, ("T", 7): 6, ("U", 1): 1}


def test_a_flush_keeps_new_queues_over_a_power_cut(disk: MemoryDisk) -> None:
    """Units, names of segments, queues and topics."""
    table = new_table(disk)
    append(table, "T", 0, 6)
    trio.run(table.flush)
    append(table, "U", 0)
    disk.power_cut()

    found = recovered(disk)

    assert found[("T", 0)] == 6
    assert found.get(("U", 0), 0) == 0


async def test_units_that_come_during_a_flush_are_flushed_by_the_next(disk: MemoryDisk) -> None:
    """A queue that changed meanwhile is dirty again."""
    table = new_table(disk)
    append(table, "T", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(table.flush)
        await trio.lowlevel.checkpoint()
        append(table, "T", 0)
    await table.flush()
    disk.power_cut()

    assert recovered(disk) == {("T", 0): 2}


async def test_a_cancelled_flush_is_done_by_the_next(disk: MemoryDisk) -> None:
    """What was not synced stays dirty."""
    table = new_table(disk)
    append(table, "T", 0, 6)
    with trio.CancelScope() as scope:
        scope.cancel()
        await table.flush()

    assert scope.cancelled_caught

    await table.flush()
    disk.power_cut()

    assert recovered(disk) == {("T", 0): 6}


async def test_a_failed_sync_is_raised(disk: MemoryDisk) -> None:
    """The store fails with it."""
    table = new_table(disk)
    append(table, "T", 0)
    disk.fail_syncs_of = lambda path: "consumequeue" in path

    with pytest.raises(OSError, match="sync failed"):
        await table.flush()


def test_a_deleted_topic_is_gone(disk: MemoryDisk) -> None:
    """All its queues and their files; other topics stay."""
    table = new_table(disk)
    append(table, "T", 0, 6)
    append(table, "T", 1)
    append(table, "U", 0)

    table.delete_topic("T")
    table.delete_topic("never there")

    assert [("U", 0)] == [(queue.topic, queue.queue_id) for queue in table]
    assert disk.list_dir("/store/consumequeue") == ["U"]
    assert append(table, "T", 0).max_offset == 1


async def test_old_segments_of_all_queues_go(disk: MemoryDisk) -> None:
    """The count is that of all files removed."""
    table = new_table(disk)
    append(table, "T", 0, 12)
    append(table, "U", 0, 6)

    assert await table.delete_before(100) == 3
