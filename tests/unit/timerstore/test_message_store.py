"""Tests of the store as a whole."""

from __future__ import annotations

from errno import ENOSPC

import pytest
import trio

from fakes import ManualClock
from small_store import (
    ROOT,
    SYNC_OPTIONS,
    message,
    open_store,
    put_bodies,
    read_bodies,
)
from timermq.simulator.disks.fault_plan import TAKING_SPACE, Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.errors import StoreFailedError, StoreLockedError
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.store_checkpoint import StoreCheckpoint


def test_a_store_is_opened_by_one_process() -> None:
    """A second process is refused while one has the store, but may look on."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")

    with pytest.raises(StoreLockedError, match=r"^/store/lock: held by another running broker$"):
        open_store(disk)

    assert ["a"] == read_bodies(open_store(disk, read_only=True))

    trio.run(store.aclose)

    assert ["a"] == read_bodies(open_store(disk))


def test_the_abort_file_is_there_while_a_store_is_open() -> None:
    """Its presence says that the last process was cut off."""
    disk = MemoryDisk()
    store = open_store(disk)

    assert disk.exists(f"{ROOT}/abort")

    trio.run(store.aclose)

    assert not disk.exists(f"{ROOT}/abort")
    assert open_store(disk).recovery.last_exit_ok

    disk.process_kill()

    assert not open_store(disk).recovery.last_exit_ok


def test_closing_makes_everything_durable() -> None:
    """Log, queues, index and checkpoint; a second time it does nothing."""
    disk = MemoryDisk()
    clock = ManualClock()
    store = open_store(disk, clock)
    store.put([message("a", properties=b"KEYS\x01k\x02")])
    trio.run(store.aclose)
    trio.run(store.aclose)
    disk.power_cut()
    page = StoreCheckpoint.open(disk, f"{ROOT}/checkpoint", read_only=True)

    store = open_store(disk, clock)

    assert {clock.now_ms()} == {
        page.physic_msg_timestamp,
        page.logics_msg_timestamp,
        page.index_msg_timestamp,
    }
    assert store.recovery.last_exit_ok
    assert ["a"] == read_bodies(store)
    assert len(store.query("T", "k", count_max=1)) == 1


async def test_a_store_is_closed_even_when_cancelled() -> None:
    """A service that is torn down still leaves a clean store."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()

    assert open_store(disk).recovery.last_exit_ok


def test_closing_after_a_failed_sync_gives_the_lock_back() -> None:
    """The next process opens the store and recovers it."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    disk.fail_syncs_of = lambda path: "commitlog" in path

    assert not trio.run(store.wait_flushed, store.commit_log.max_offset)

    disk.fail_syncs_of = lambda _: False
    trio.run(store.aclose)
    store = open_store(disk)

    assert not store.recovery.last_exit_ok
    assert ["a"] == read_bodies(store)


def test_a_store_with_waiting_units_is_not_closed_cleanly() -> None:
    """Recovery brings them to the queue."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    disk.total = disk.usage(ROOT).used
    put_bodies(store, "b", queue_id=1)
    trio.run(store.aclose)
    disk.total = 1 << 40

    store = open_store(disk)

    assert not store.recovery.last_exit_ok
    assert ["b"] == read_bodies(store, queue_id=1)


def test_flushed_messages_survive_a_power_cut() -> None:
    """Messages and their queues are there after a power cut."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, *"abcdefgh")
    trio.run(store.flush)
    disk.power_cut()

    assert list("abcdefgh") == read_bodies(open_store(disk))


def test_acknowledged_messages_survive_a_power_cut_with_sync_flush() -> None:
    """The queues are made again."""
    disk = MemoryDisk()
    store = open_store(disk, options=SYNC_OPTIONS)
    result = store.put([message("a")])[0]

    assert trio.run(store.wait_flushed, result.end)

    disk.power_cut()

    assert ["a"] == read_bodies(open_store(disk, options=SYNC_OPTIONS))


def test_queues_are_listed() -> None:
    """Those that ever had a message."""
    store = open_store(MemoryDisk())
    put_bodies(store, "a")
    put_bodies(store, "b", topic="U", queue_id=3)

    assert [("T", 0), ("U", 3)] == [(queue.topic, queue.queue_id) for queue in store.queues()]
    assert store.queue("U", 0) is None


async def test_a_deleted_topic_begins_anew() -> None:
    """With queue offset 0; other topics are not touched."""
    store = open_store(MemoryDisk(), options=SYNC_OPTIONS)
    put_bodies(store, "old", "waiting")
    put_bodies(store, "other", topic="U")

    await store.delete_topic("T")
    result = store.put([message("new")])[0]
    await store.flush()

    assert result.queue_offset == 0
    assert (["new"], ["other"]) == (read_bodies(store), read_bodies(store, "U"))


@pytest.mark.parametrize("place", ["consumequeue/T/0", "consumequeue", "config"])
async def test_a_deletion_that_is_not_synced_fails_the_store(place: str) -> None:
    """Files that come back beside later ones would be taken for the topic's."""
    rule = FaultRule(operations=[Operation.SYNC_DIR], name=f"{ROOT}/{place}")
    plan = FaultRules()
    store = open_store(FaultyDisk(MemoryDisk(), ROOT, plan))
    put_bodies(store, "a")
    await store.flush()
    plan.rules.append(rule)
    with pytest.raises(StoreFailedError, match=f"{ROOT}/{place}"):
        await store.delete_topic("T")
    (refused,) = store.put([message("b")])

    assert 1 == len(plan.struck)
    assert "store has failed: " in (refused.remark or "")
    assert ROOT in (refused.remark or "")


async def test_a_deletion_without_room_changes_nothing() -> None:
    """Neither now nor at the next start: what is noted in memory only must not be saved later."""
    rule = FaultRule(operations=TAKING_SPACE, families=[FileFamily.CONFIG], fault=Fault(ENOSPC))
    plan = FaultRules()
    disk = MemoryDisk()
    store = open_store(FaultyDisk(disk, ROOT, plan))
    put_bodies(store, "a", "b")
    plan.rules.append(rule)
    with pytest.raises(OSError, match="No space left"):
        await store.delete_topic("T")
    put_bodies(store, "c")
    bodies = read_bodies(store)
    await store.aclose()
    for name in disk.list_dir(f"{ROOT}/consumequeue/T/0"):
        disk.remove(f"{ROOT}/consumequeue/T/0/{name}")

    assert ["a", "b", "c"] == bodies == read_bodies(open_store(disk))


def test_a_queue_begun_anew_whose_old_files_may_come_back_is_not_opened() -> None:
    """Retried it would find nothing to remove, and go on."""
    memory = MemoryDisk()
    put_bodies(open_store(memory), "a")
    memory.process_kill()
    directory = f"{ROOT}/consumequeue/T/0"
    # Somebody has put a file of another time in the place of the queue's.
    memory.remove(f"{directory}/{0:020d}")
    memory.open(f"{directory}/{300:020d}", create=True).truncate(100)
    rule = FaultRule(operations=[Operation.SYNC_DIR], name=directory)
    with pytest.raises(StoreFailedError, match=directory):
        open_store(FaultyDisk(memory, ROOT, FaultRules(rule)))


def test_what_dispatch_cannot_sync_fails_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync that failed is not retried."""
    store = open_store(MemoryDisk())

    def fail(queue: ConsumeQueue, *_: object) -> None:
        raise StoreFailedError(f"{queue.directory}: not synced")

    monkeypatch.setattr(ConsumeQueue, "append", fail)
    (stored,) = store.put([message("a")])
    monkeypatch.undo()
    (refused,) = store.put([message("b")])

    assert [PutStatus.PUT_OK, PutStatus.SERVICE_NOT_AVAILABLE] == [stored.status, refused.status]
    assert "store has failed: /store/consumequeue/T/0: not synced" == refused.remark
    assert [] == read_bodies(store)
    with pytest.raises(StoreFailedError, match="not synced"):
        trio.run(store.flush)


@pytest.mark.parametrize("is_clean", [True, False])
def test_looking_on_writes_nothing(is_clean: bool) -> None:
    """Not even the lock file, and recovery is decided in memory."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, *"abcdefg")
    if is_clean:
        trio.run(store.aclose)
    else:
        disk.process_kill()
    disk.remove(f"{ROOT}/lock")
    total, disk.total = disk.total, 0  # any write that takes room would fail
    names = {path: disk.list_dir(path) for path in (ROOT, f"{ROOT}/consumequeue/T/0")}

    store = open_store(disk, read_only=True)

    assert list("abcdefg") == read_bodies(store)
    assert names == {path: disk.list_dir(path) for path in names}

    trio.run(store.aclose)
    disk.total = total

    assert is_clean == open_store(disk).recovery.last_exit_ok


def test_an_empty_directory_can_be_looked_at() -> None:
    """There is nothing in it."""
    store = open_store(MemoryDisk(), read_only=True)

    assert ([], 0, []) == (
        list(store.queues()),
        store.commit_log.max_offset,
        store.query("T", "k", count_max=1),
    )
