"""Tests of what runs in the background."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from small_store import ROOT, SYNC_OPTIONS, message, put_bodies, read_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.cleaning import HOUR_MS
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.index_follower import IndexFollower
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_options import StoreOptions


class Rig:
    """A store that is served on virtual time."""

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.clock = VirtualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        self.store = self.open(options)

    def open(self, options: StoreOptions | None = None) -> MessageStore:
        """Open the store on the disk, as a new process does."""
        return MessageStore.open(
            self.disk,
            ROOT,
            options or small_options(),
            now_ms=self.clock.now_ms,
            store_host=bytes(8),
        )

    async def serve(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run something while the store is served."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.store.run)
            await body()
            nursery.cancel_scope.cancel()

    def checkpoint(self) -> tuple[int, int, int]:
        """Log, queues and index as the checkpoint on the disk says, after the start."""
        page = StoreCheckpoint.open(self.disk, f"{ROOT}/checkpoint", read_only=True)
        stamps = page.physic_msg_timestamp, page.logics_msg_timestamp, page.index_msg_timestamp
        return (stamps[0] - START_MS, stamps[1] - START_MS, stamps[2] - START_MS)


async def test_the_log_is_durable_after_half_a_second(autojump_clock: MockClock) -> None:
    """ASYNC_FLUSH loses no more than that in a power cut."""
    rig = Rig()

    async def body() -> None:
        put_bodies(rig.store, "a")
        await trio.sleep(0.4)
        assert rig.store.commit_log.flushed_where == 0
        await trio.sleep(0.2)
        assert rig.store.commit_log.flushed_where == rig.store.commit_log.max_offset

    await rig.serve(body)


async def test_with_sync_flush_queues_show_only_what_is_synced(autojump_clock: MockClock) -> None:
    """What a consumer has seen no power cut undoes."""
    rig = Rig(SYNC_OPTIONS)

    async def body() -> None:
        put_bodies(rig.store, "a")
        assert [] == read_bodies(rig.store)
        await trio.sleep(1)
        assert ["a"] == read_bodies(rig.store)

    await rig.serve(body)


async def test_queues_and_checkpoint_follow_after_a_second(autojump_clock: MockClock) -> None:
    """The checkpoint tells where a recovery will begin."""
    rig = Rig()

    async def body() -> None:
        await trio.sleep(7)
        put_bodies(rig.store, "a")
        await trio.sleep(1.1)

    await rig.serve(body)

    assert (7000, 7000, -START_MS) == rig.checkpoint()

    rig.disk.power_cut()
    rig.store = rig.open()

    assert ["a"] == read_bodies(rig.store)


async def test_the_index_follows_and_is_synced_now_and_then(autojump_clock: MockClock) -> None:
    """Every ten seconds, when there was something to index."""
    rig = Rig()

    async def body() -> None:
        rig.store.put([message(properties=b"KEYS\x01k\x02")])
        await trio.sleep(0.3)
        assert rig.store.statistics().indexed_to == rig.store.commit_log.max_offset
        await trio.sleep(12)
        rig.store.put([message(properties=b"KEYS\x01k\x02")])
        await trio.sleep(2)

    await rig.serve(body)

    assert (12_300, 12_300) == rig.checkpoint()[:2]
    rig.disk.power_cut()
    rig.store = rig.open()

    assert rig.store.statistics().indexed_to > 0


def large(count: int) -> list[Message]:
    """Messages that are more than a mebibyte together."""
    return [message("x" * ((1 << 20) // count), properties=b"KEYS\x01k\x02")] * count


async def test_a_mebibyte_is_indexed_at_once(autojump_clock: MockClock) -> None:
    """A bulk job, which waits for the index, is not held to that much in 200 ms."""
    rig = Rig(small_options(mapped_file_size_commit_log=1 << 22))

    async def body() -> None:
        rig.store.put([message(properties=b"KEYS\x01k\x02")])
        await trio.sleep(0.1)
        assert rig.store.statistics().indexed_to == 0
        rig.store.put(large(4))
        await trio.sleep(0.01)
        assert rig.store.statistics().indexed_to == rig.store.commit_log.max_offset

    await rig.serve(body)


async def test_an_index_without_room_rests_between_two_tries(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much has gathered: everything else has its turn."""
    rig = Rig(small_options(mapped_file_size_commit_log=1 << 22))
    tried = 0

    def no_room(_: IndexFollower) -> None:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(IndexFollower, "index_slice", no_room)

    async def body() -> None:
        rig.store.put(large(4))
        await trio.sleep(1.1)

    await rig.serve(body)

    assert tried == 6


async def test_an_idle_store_does_nothing_but_measure_its_disk(autojump_clock: MockClock) -> None:
    """An hour of it takes no time."""
    rig = Rig()

    async def body() -> None:
        put_bodies(rig.store, "a")
        await trio.sleep(3600)

    await rig.serve(body)

    assert rig.store.statistics().flush_count == 1


async def test_old_segments_go_in_the_background(autojump_clock: MockClock) -> None:
    """In the hour of cleaning, when they are old enough."""
    hours = ";".join(map(str, range(24)))
    rig = Rig(small_options(delete_when=hours, file_reserved_time_hours=1))

    async def body() -> None:
        put_bodies(rig.store, *["x" * 400] * 9)
        await trio.sleep(HOUR_MS / 1000 - 1)
        assert rig.store.commit_log.min_offset == 0
        await trio.sleep(12)
        assert rig.store.commit_log.min_offset > 0

    await rig.serve(body)


@pytest.mark.parametrize("name", ["usage", "remove"])
async def test_a_disk_that_fails_while_old_files_go_fails_the_store(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By name, also for the broker that serves it; and nothing more is put."""
    hours = ";".join(map(str, range(24)))
    rig = Rig(small_options(delete_when=hours, file_reserved_time_hours=1))
    put_bodies(rig.store, *["x" * 400] * 9)

    def refuse(_: MemoryDisk, path: str) -> None:
        raise OSError(errno.EIO, f"{name} refused")

    async def body() -> None:
        monkeypatch.setattr(MemoryDisk, name, refuse)
        await trio.sleep(HOUR_MS / 1000 + 12)

    with pytest.RaisesGroup(
        pytest.RaisesExc(StoreFailedError, match=f"{name} refused"), flatten_subgroups=True
    ):
        await rig.serve(body)
    assert rig.store.writeable() is not None


async def test_a_full_disk_is_noticed_and_forgotten(autojump_clock: MockClock) -> None:
    """Within the interval of cleaning."""
    rig = Rig(small_options(clean_resource_interval_ms=1000))

    async def body() -> None:
        put_bodies(rig.store, "a")
        rig.disk.total = rig.disk.usage(ROOT).used
        await trio.sleep(1.1)
        assert rig.store.writeable() is not None
        rig.disk.total = 1 << 40
        await trio.sleep(1.1)
        assert rig.store.writeable() is None

    await rig.serve(body)


async def test_a_queue_that_could_not_be_written_is_tried_again(autojump_clock: MockClock) -> None:
    """Without any send that would ask for it."""
    rig = Rig()

    async def body() -> None:
        put_bodies(rig.store, "a")
        rig.disk.total = rig.disk.usage(ROOT).used
        put_bodies(rig.store, "b", queue_id=1)
        assert rig.store.writeable() is not None
        rig.disk.total = 1 << 40
        await trio.sleep(1.1)
        assert rig.store.writeable() is None
        assert ["b"] == read_bodies(rig.store, queue_id=1)

    await rig.serve(body)


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "checkpoint"])
async def test_a_failed_sync_ends_the_service(autojump_clock: MockClock, name: str) -> None:
    """It is never retried: recovery finds out what is there."""
    rig = Rig()
    rig.disk.fail_syncs_of = lambda path: name in path

    async def body() -> None:
        put_bodies(rig.store, "a")
        await trio.sleep(10)

    with pytest.RaisesGroup(StoreFailedError, flatten_subgroups=True):
        await rig.serve(body)

    assert (rig.store.writeable() or "").startswith("store has failed: ")

    rig.disk.fail_syncs_of = lambda _: False
    await rig.store.aclose()
    rig.store = rig.open()

    assert not rig.store.recovery.last_exit_ok
    assert ["a"] == read_bodies(rig.store)


async def test_a_flush_that_fails_is_raised(autojump_clock: MockClock) -> None:
    """A caller that asked for durability has to know."""
    rig = Rig()
    put_bodies(rig.store, "a")
    rig.disk.fail_syncs_of = lambda path: "consumequeue" in path

    for _ in range(2):
        with pytest.raises(StoreFailedError, match=r"^store has failed: "):
            await rig.store.flush()


async def test_a_full_disk_keeps_the_old_checkpoint(autojump_clock: MockClock) -> None:
    """No room for the page is no failed sync."""
    rig = Rig()
    put_bodies(rig.store, "a")
    rig.disk.total = rig.disk.usage(ROOT).used

    async def body() -> None:
        await trio.sleep(3)

    await rig.serve(body)

    assert rig.store.statistics().flush_count == 1


async def test_units_that_come_during_a_sync_are_not_called_durable(
    autojump_clock: MockClock,
) -> None:
    """A queue that had no room is written while others are synced: the next checkpoint has it."""
    rig = Rig()
    put_bodies(rig.store, "a", topic="A")
    rig.disk.total = rig.disk.usage(ROOT).used
    put_bodies(rig.store, "b", topic="B")

    def make_room(path: str) -> bool:
        if "consumequeue/A" in path:
            rig.disk.total = 1 << 40
            rig.store.put([])
        return False

    rig.disk.fail_syncs_of = make_room

    async def body() -> None:
        await trio.sleep(1.5)
        assert (0, -START_MS, -START_MS) == rig.checkpoint()
        assert ["b"] == read_bodies(rig.store, "B")
        await trio.sleep(1)

    await rig.serve(body)

    assert (0, 0, -START_MS) == rig.checkpoint()


async def test_with_sync_flush_nothing_waits_for_its_sync(autojump_clock: MockClock) -> None:
    """Also what no request waits for, such as a timer that is due, is shown at once."""
    rig = Rig(SYNC_OPTIONS)

    async def body() -> None:
        await trio.sleep(7)
        put_bodies(rig.store, "a")
        await trio.testing.wait_all_tasks_blocked()
        assert ["a"] == read_bodies(rig.store)

    await rig.serve(body)


async def test_old_bytes_are_compared_anew_every_ten_seconds(autojump_clock: MockClock) -> None:
    """What recovery has compared may rot while the store is served, before a message leaves."""
    rig = Rig()
    put_bodies(rig.store, "body")
    await rig.store.aclose()
    rig.store = rig.open()
    place = (0, rig.store.commit_log.max_offset)
    whole = rig.store.commit_log.record_at(*place)
    assert whole is not None
    at = whole.index(b"body")

    async def body() -> None:
        rig.disk.rot(f"{ROOT}/commitlog/{0:020d}", at, b"rots here")
        await trio.sleep(11)
        assert rig.store.commit_log.record_at(*place) is None

    await rig.serve(body)
