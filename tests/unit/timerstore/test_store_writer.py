"""Tests of putting messages: where they are stored, times, batches, and when sends are refused."""

from __future__ import annotations

import pytest
import trio

from fakes import START_MS, ManualClock
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    SYNC_OPTIONS,
    message,
    open_store,
    put_bodies,
    read_bodies,
    small_options,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutResult, PutStatus
from timermq.timerstore.store_options import FlushDiskType

BIG = "x" * 400
"""Two of them fill a segment."""


def test_results_say_where_messages_are() -> None:
    """Positions in the log, ordinals in the queues, one store time."""
    clock = ManualClock()
    store = open_store(MemoryDisk(), clock)
    first, second, third = store.put([message("a"), message("b", queue_id=1), message("c")])

    assert [0, first.end, second.end] == [one.phy_offset for one in (first, second, third)]
    assert [0, 0, 1] == [one.queue_offset for one in (first, second, third)]
    assert {START_MS} == {one.store_ms for one in (first, second, third)}


def test_store_times_never_go_back() -> None:
    """Store times never go back, whatever the clock does."""
    clock = ManualClock()
    store = open_store(MemoryDisk(), clock)
    times: list[int] = []
    for step in (10, -500, 5, 600):
        clock.time_ms += step
        times.append(store.put([message()])[0].store_ms)

    assert [START_MS + 10, START_MS + 10, START_MS + 10, START_MS + 115] == times


def test_an_empty_batch_changes_nothing() -> None:
    """Nor does one of which every message is refused."""
    store = open_store(MemoryDisk())

    assert store.put([]) == []

    (result,) = store.put([message(topic="")])

    assert (PutStatus.MESSAGE_ILLEGAL, 0) == (result.status, store.commit_log.max_offset)


def test_a_whole_batch() -> None:
    """One message that may not be stored takes the others with it; otherwise it is as any batch."""
    store = open_store(MemoryDisk())
    put_bodies(store, "first")
    end = store.commit_log.max_offset
    refused = store.put([message("a"), message(topic=""), message("b")], whole=True)
    counts = store.statistics()
    after = store.commit_log.max_offset
    stored = store.put([message("a"), message("b")], whole=True)

    assert [PutStatus.MESSAGE_ILLEGAL] * 3 == [one.status for one in refused]
    assert {"topic of 0 bytes: expected 1 to 127"} == {one.remark for one in refused}
    assert (end, 3) == (after, counts.refused_count)
    assert [1, 2] == [one.queue_offset for one in stored]
    assert ["first", "a", "b"] == read_bodies(store)


def test_a_send_begins_no_segment_that_deliveries_need() -> None:
    """A segment and a tenth of the disk are kept for them; in its segment a send is taken."""
    disk = MemoryDisk(total=68 << 10)
    store = open_store(disk)
    results: list[PutResult] = []
    while not results or results[-1].status.is_stored:
        results += store.put([message(BIG)])
    free = disk.usage(ROOT).free
    delivered = store.put([message(BIG)], even_when_full=True)

    assert PutStatus.SERVICE_NOT_AVAILABLE is results[-1].status
    assert results[-1].remark == (
        f"disk of {ROOT} is full: {free} bytes free, expected at least {2 * 1024 + 6963} "
        "to begin a segment of the log"
    )
    assert len(results) > 3
    assert PutStatus.PUT_OK is delivered[0].status


@pytest.mark.parametrize("segments", [0, 1, 2])
def test_a_batch_that_the_disk_does_not_take_is_not_stored(segments: int) -> None:
    """None of it: no queue offset, no position, nothing to read; and a later one is stored."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "first")
    disk.total = disk.usage(ROOT).used + 2 * segments * 4096  # each has its seals
    # As deliveries are put: sends are refused before the disk is asked.
    results = store.put(
        [message(BIG, queue_id=number % 2) for number in range(9)], even_when_full=True
    )
    refused = results[0]

    assert {PutStatus.SERVICE_NOT_AVAILABLE} == {result.status for result in results}
    assert (refused.remark or "").startswith(
        f"commit log: [Errno 28] no space left on device: '{ROOT}/commitlog/"
    )
    assert ["first"] == read_bodies(store)
    assert store.statistics().refused_count == 9

    disk.total = 1 << 40
    stored = store.put([message("second"), message("third", queue_id=1)])

    assert [1, 0] == [result.queue_offset for result in stored]
    assert (["first", "second"], ["third"]) == (read_bodies(store), read_bodies(store, queue_id=1))

    disk.process_kill()
    store = open_store(disk)

    assert (["first", "second"], ["third"]) == (read_bodies(store), read_bodies(store, queue_id=1))


def test_a_queue_that_cannot_be_written_refuses_sends_until_it_can() -> None:
    """What is in the log already stays stored, and becomes readable later."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    disk.total = disk.usage(ROOT).used

    (stored,) = store.put([message("b", queue_id=1)])
    (refused,) = store.put([message("c")])

    assert [PutStatus.PUT_OK, PutStatus.SERVICE_NOT_AVAILABLE] == [stored.status, refused.status]
    assert refused.remark == (
        "consume queue: [Errno 28] no space left on device: "
        f"'{ROOT}/consumequeue/T/1/00000000000000000000'"
    )
    assert [] == read_bodies(store, queue_id=1)

    disk.total = 1 << 40
    trio.run(store.flush)
    put_bodies(store, "d")

    assert (["a", "d"], ["b"]) == (read_bodies(store), read_bodies(store, queue_id=1))


def test_listeners_hear_once_a_queue_and_batch() -> None:
    """After the messages are readable."""
    store = open_store(MemoryDisk())
    heard: list[tuple[int, int]] = []
    store.on_arrival(lambda queue: heard.append((queue.queue_id, queue.max_offset)))
    store.put([message(queue_id=number % 2) for number in range(5)])
    store.put([message()])

    assert [(0, 3), (1, 2), (0, 4)] == heard


async def test_sync_flush_shows_only_what_is_durable() -> None:
    """A reader must not see what a power cut could undo."""
    store = open_store(MemoryDisk(), options=SYNC_OPTIONS)
    first = store.put([message("a")])[0]
    put_bodies(store, "b")

    assert [] == read_bodies(store)

    assert await store.wait_flushed(first.end)

    assert ["a", "b"] == read_bodies(store)


def test_sync_flush_refuses_sends_when_too_much_waits_for_the_disk() -> None:
    """Busy, which a client tries again."""
    options = small_options(flush_disk_type=FlushDiskType.SYNC_FLUSH, unflushed_size_max=300)
    store = open_store(MemoryDisk(), options=options)
    put_bodies(store, "x" * 200, "y" * 200)
    (refused,) = store.put([message()])

    assert PutStatus.OS_PAGE_CACHE_BUSY == refused.status
    assert (refused.remark or "").endswith("bytes await their sync: expected at most 300")

    trio.run(store.flush)

    put_bodies(store, "z")


def test_a_closed_store_takes_nothing() -> None:
    """Nor does one that is only looked at."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    trio.run(store.aclose)
    looked_at = open_store(disk, read_only=True)

    remarks = [one.put([message()])[0].remark for one in (store, looked_at)]

    assert ["store is closed", "store is opened read only"] == remarks
    assert ["a"] == read_bodies(looked_at)


def failed_store() -> MessageStore:
    """A store whose log could not be synced."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    disk.fail_syncs_of = lambda path: "commitlog" in path
    end = store.commit_log.max_offset

    assert not trio.run(store.wait_flushed, end)

    disk.fail_syncs_of = lambda _: False
    return store


def test_a_store_that_has_failed_takes_nothing() -> None:
    """Until it is opened again."""
    store = failed_store()
    (refused,) = store.put([message()], even_when_full=True)

    assert PutStatus.SERVICE_NOT_AVAILABLE == refused.status
    assert (refused.remark or "").startswith("store has failed: ")
    assert store.writeable() == refused.remark
    assert ["a"] == read_bodies(store)


def test_records_fill_segments_up_to_the_blank() -> None:
    """The log grows by whole segments, and queues do not notice."""
    store = open_store(MemoryDisk())
    put_bodies(store, *[BIG] * 5)

    assert store.commit_log.max_offset > 2 * SEGMENT_SIZE
    assert [BIG] * 5 == read_bodies(store)
