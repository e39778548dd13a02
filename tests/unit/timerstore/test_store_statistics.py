"""Tests of what a store looks like at one moment."""

from __future__ import annotations

import attrs
import trio

from fakes import ManualClock
from small_store import message, open_store, put_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_statistics import StoreStatistics


def new_store(clock: ManualClock) -> MessageStore:
    """An empty store on a disk of a gigabyte."""
    return open_store(MemoryDisk(total=1 << 30), clock, small_options())


def test_a_new_store() -> None:
    """A store in which nothing has happened has 0 everywhere."""
    found = attrs.evolve(new_store(ManualClock()).statistics(), disk_used_ratio=0.0)

    assert found == StoreStatistics(
        put_count=0,
        put_size=0,
        refused_count=0,
        flush_count=0,
        min_phy_offset=0,
        max_phy_offset=0,
        flushed_where=0,
        dispatched_to=0,
        indexed_to=0,
        queue_count=0,
        last_store_ms=0,
        disk_used_ratio=0.0,
        refusal=None,
    )


def test_counters_and_positions() -> None:
    """What was put, refused, synced and indexed."""
    clock = ManualClock()
    store = new_store(clock)
    put_bodies(store, "a", "b")
    put_bodies(store, "c", queue_id=1)
    store.put([message(topic="/")])
    end = store.commit_log.max_offset
    before = store.statistics()
    trio.run(store.flush)
    store.query("T", "k", count_max=1)
    after = store.statistics()

    assert (3, end, 1, 2, clock.now_ms()) == (
        before.put_count,
        before.put_size,
        before.refused_count,
        before.queue_count,
        before.last_store_ms,
    )
    assert (0, 0, end) == (before.flush_count, before.flushed_where, before.dispatched_to)
    assert (1, end, end) == (after.flush_count, after.flushed_where, after.indexed_to)
