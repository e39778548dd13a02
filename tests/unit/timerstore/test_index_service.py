"""Tests of the row of index files."""

from __future__ import annotations

import datetime

import pytest
import trio

from fakes import START_MS, ManualClock
from index_entries import IndexEntry, add_batch
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore import index_file, index_service
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.index_file import CutWalkError
from timermq.timerstore.index_layout import file_size
from timermq.timerstore.index_service import IndexService

DIRECTORY = "/store/index"
FOREVER_MS = 1 << 60


def opened(
    disk: MemoryDisk, clock: ManualClock | None = None, *, read_only: bool = False
) -> IndexService:
    """The index of a store, with files of 3 slots and 4 entries (so 3 keys)."""
    index = IndexService(
        disk,
        DIRECTORY,
        hash_slots=3,
        entries_max=5,
        now_ms=(clock or ManualClock()).now_ms,
        read_only=read_only,
    )
    index.load()
    return index


def entry(phy_offset: int, *keys: str, topic: str = "T", store_ms: int = START_MS) -> IndexEntry:
    """A message with some keys, for the index."""
    return IndexEntry(topic, [key.encode() for key in keys], phy_offset, store_ms)


def query(index: IndexService, key: str, topic: str = "T", **times: int) -> list[int]:
    """Positions in the log that the index finds for a key."""
    return index.query(
        topic,
        key,
        count_max=100,
        begin_ms=times.get("begin_ms", 0),
        end_ms=times.get("end_ms", FOREVER_MS),
    )


def test_an_empty_index() -> None:
    """Without a message nothing is covered, nothing is found and no file is made."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [])
    add_batch(index, [entry(0)])

    assert (-1, 0) == (index.covered_to, index.last_update_ms)
    assert query(index, "k") == []
    assert disk.list_dir(DIRECTORY) == []


def test_keys_belong_to_their_topic() -> None:
    """A message is found by topic and key, newest first."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(0, "a"), entry(10, "a", "b"), entry(20, "标", topic="U")])

    assert query(index, "a") == [10, 0]
    assert query(index, "b") == [10]
    assert query(index, "标", "U") == [20]
    assert query(index, "a", "U") == []
    assert index.covered_to == 20


def test_full_files_are_followed_by_new_ones() -> None:
    """Keys fill file after file, also in the middle of a message; all files are searched."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(at, "a", "b", "c") for at in range(0, 100, 10)])

    assert len(disk.list_dir(DIRECTORY)) == 8
    assert query(index, "a") == list(range(90, -1, -10))
    assert index.statistics() == index_service.IndexStatistics(
        file_count=8, entry_count=30, covered_to=90, flushed_ms=0
    )


def test_names_are_local_times() -> None:
    """Files are named by the moment they begin; no clock can mix up their order."""
    disk = MemoryDisk()
    clock = ManualClock()
    index = opened(disk, clock)
    add_batch(index, [entry(0, "a", "b", "c", "d", "e")])
    clock.time_ms -= 3_600_000
    add_batch(index, [entry(10, "a", "b", "c", "d")])
    local = datetime.datetime.fromtimestamp(START_MS // 1000)
    first = f"{local:%Y%m%d%H%M%S}{START_MS % 1000:03d}"

    assert disk.list_dir(DIRECTORY) == [str(int(first) + step) for step in range(3)]


def test_what_is_covered_is_left_out() -> None:
    """Handing over the same messages again, as after a crash, adds nothing."""
    index = opened(MemoryDisk())
    messages = [entry(0, "a"), entry(10, "a", "b", "c", "d", "e", "f")]
    add_batch(index, messages)
    add_batch(index, messages)

    assert query(index, "a") == [10, 0]
    assert index.statistics().entry_count == 7


def test_a_message_that_was_half_indexed_is_completed() -> None:
    """The last message may lack keys, which are added; those that are in are not added twice."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(0, "z"), entry(10, "a", "b", "c", "d")])
    add_batch(index, [entry(10, "a", "b", "c", "d", "e"), entry(20, "e")])

    assert query(index, "e") == [20, 10]
    assert index.statistics().entry_count == 7


def test_the_beginning_is_widened_by_a_second() -> None:
    """Entries know seconds only: a message is found from a second before its entry's time on."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(0, "x"), entry(10, "a", store_ms=START_MS + 999)])

    assert query(index, "a", begin_ms=START_MS + 1000) == [10]
    assert query(index, "a", begin_ms=START_MS + 2001) == []
    assert query(index, "a", end_ms=START_MS) == [10]
    assert query(index, "a", end_ms=START_MS - 1) == []


def test_queries_are_limited() -> None:
    """No more positions are returned than asked for."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(at, "a") for at in range(100)])

    assert index.query("T", "a", count_max=6, begin_ms=0, end_ms=FOREVER_MS) == [
        99, 98, 97, 96, 95, 94,
    ]  # fmt: skip


def test_a_cut_walk_is_told_unless_it_may_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who must know of all positions hears that there may be more; a query goes on with what is."""
    monkeypatch.setattr(index_file, "WALK_COUNT_MAX", 2)
    index = opened(MemoryDisk())
    add_batch(index, [entry(at, "a") for at in range(7)])
    positions = index.positions("T", "a", begin_ms=0, end_ms=FOREVER_MS)

    assert query(index, "a") == [6, 5, 3, 2]
    assert [next(positions), next(positions)] == [6, 5]
    with pytest.raises(CutWalkError):
        list(positions)


def test_each_position_is_returned_once() -> None:
    """A key that a message carries twice, or that collides with another one, counts once."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(0, "Aa", "BB", "Aa")])

    assert query(index, "Aa") == [0]


def test_large_batches_are_added_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys are handed over, only so many are worked on at a time."""
    monkeypatch.setattr(index_service, "STEP_KEYS_MAX", 2)
    index = opened(MemoryDisk())
    add_batch(index, [entry(at, "a", "b", "c") for at in range(5)])

    assert query(index, "c") == [4, 3, 2, 1, 0]


async def test_a_flushed_index_survives_a_power_cut() -> None:
    """Everything that was flushed is covered and found."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(at, "a", "b", store_ms=START_MS + at) for at in range(5)])
    assert await index.flush()
    disk.power_cut()
    again = opened(disk)

    assert (4, START_MS + 4) == (again.covered_to, again.flushed_ms)
    assert query(again, "a") == [4, 3, 2, 1, 0]


async def test_what_was_not_flushed_is_not_covered() -> None:
    """After a crash the index says how far it is, and what comes after is added again."""
    disk = MemoryDisk()
    index = opened(disk)
    messages = [entry(at, "a", "b") for at in range(9)]
    add_batch(index, messages[:3])
    await index.flush()
    add_batch(index, messages[3:])
    disk.process_kill()
    again = opened(disk)

    assert again.covered_to == 2
    assert query(again, "a") == [2, 1, 0]
    add_batch(again, messages)
    assert query(again, "a") == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert again.statistics().entry_count == 18


async def test_a_file_without_entries_is_removed() -> None:
    """Files that were begun and never counted, or not even given a length, make room again."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(0, "a")])
    await index.flush()
    disk.open(f"{DIRECTORY}/20991231235959000", create=True).truncate(file_size(3, 5))
    disk.open(f"{DIRECTORY}/20991231235959001", create=True)
    again = opened(disk)

    assert len(disk.list_dir(DIRECTORY)) == 1
    assert query(again, "a") == [0]


def test_other_names_are_left_alone() -> None:
    """What is not named like an index file is none of ours."""
    disk = MemoryDisk()
    disk.make_dirs(DIRECTORY)
    disk.open(f"{DIRECTORY}/notes.txt", create=True)

    assert opened(disk).covered_to == -1
    assert disk.list_dir(DIRECTORY) == ["notes.txt"]


def test_files_of_other_settings_are_not_opened() -> None:
    """An index of other settings is refused before anything is written."""
    disk = MemoryDisk()
    disk.make_dirs(DIRECTORY)
    disk.open(f"{DIRECTORY}/20231114221320000", create=True).truncate(100)
    with pytest.raises(StoreFormatError, match="expected 3 slots and 5 entries in 152 bytes"):
        opened(disk)


async def test_flush_in_the_order_of_the_files() -> None:
    """While an earlier file is not durable no later one counts anything."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(at, "a") for at in range(9)])
    names = disk.list_dir(DIRECTORY)
    disk.fail_syncs_of = lambda path: path.endswith(names[1])
    with pytest.raises(OSError, match="sync"):
        await index.flush()
    disk.fail_syncs_of = lambda _: False
    disk.process_kill()

    assert opened(disk).covered_to == 3


async def test_a_full_disk_delays_the_index() -> None:
    """Keys that found no room are added when there is some; nothing is twice."""
    disk = MemoryDisk()
    index = opened(disk)
    messages = [entry(at, "a", "b", "c") for at in range(9)]
    add_batch(index, messages[:1])
    total, disk.total = disk.total, 4096
    with pytest.raises(OSError, match=r"."):
        add_batch(index, messages)
    disk.total = total
    add_batch(index, messages)

    assert await index.flush()
    assert query(index, "c") == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert index.statistics().entry_count == 27


async def test_a_flush_without_room_is_tried_again() -> None:
    """A flush that the disk did not take says so and counts nothing."""
    disk = MemoryDisk()
    index = IndexService(
        disk,
        DIRECTORY,
        hash_slots=10_000,
        entries_max=5,
        now_ms=ManualClock().now_ms,
    )
    add_batch(index, [entry(0, "a")])
    total, disk.total = disk.total, 0

    assert not await index.flush()
    assert index.flushed_ms == 0
    disk.total = total
    assert await index.flush()
    assert START_MS == index.flushed_ms


async def test_a_cancelled_flush_is_done_again() -> None:
    """After a cancelled flush the next one makes everything durable, names too."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(at, "a") for at in range(9)])
    with trio.CancelScope() as scope:
        scope.cancel()
        await index.flush()
    assert scope.cancelled_caught
    await index.flush()
    disk.power_cut()

    assert query(opened(disk), "a") == [8, 7, 6, 5, 4, 3, 2, 1, 0]


async def test_old_files_are_deleted() -> None:
    """Files that end before a position go, the newest stays."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(at, "a") for at in range(9)])
    await index.flush()

    assert index.delete_before(4) == 1
    assert query(index, "a") == [8, 7, 6, 5, 4]
    assert index.delete_before(1000) == 1
    assert len(disk.list_dir(DIRECTORY)) == 1
    assert query(opened(disk), "a") == [8]


async def test_read_only() -> None:
    """A tool reads the index of a killed broker without changing a byte."""
    disk = MemoryDisk()
    index = opened(disk)
    add_batch(index, [entry(0, "a")])
    await index.flush()
    add_batch(index, [entry(1, "a", "b", "c", "d")])
    disk.process_kill()
    names = disk.list_dir(DIRECTORY)
    tool = opened(disk, read_only=True)

    assert query(tool, "a") == [0]
    assert await tool.flush()
    assert names == disk.list_dir(DIRECTORY)


def test_kin_of_a_message() -> None:
    """All with its unique key, whatever file they are in; the keys of its user do not count."""
    index = opened(MemoryDisk())
    add_batch(index, [entry(0, "a", "b"), entry(100, "b"), entry(200, "a"), entry(300, "c")])

    assert [200, 0] == list(index.kin(0))
    assert [100, 0] == list(index.kin(100))
    assert [200, 0] == list(index.kin(200))
    assert [] == list(index.kin(50))
