"""Tests of the index that follows the log."""

from __future__ import annotations

import weakref

import attrs
import pytest
import trio

from fakes import ManualClock
from small_store import ROOT, message, open_store, put_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.index_follower import (
    FRESH_COUNT_MAX,
    FRESH_SIZE_MAX,
    LOOK_UP_LAG_MAX,
    SLICE_COUNT,
    IndexBehindError,
    IndexFollower,
)
from timermq.timerstore.index_keys import FreshRecords, keys_in
from timermq.timerstore.index_layout import HEADER
from timermq.timerstore.message import SysFlag
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record

OPTIONS = small_options(mapped_file_size_commit_log=1 << 18, max_index_num=2000)


def follower(store: MessageStore, disk: MemoryDisk) -> IndexFollower:
    """A follower of its own beside the store's."""
    return IndexFollower.open(
        disk, ROOT, store.commit_log, OPTIONS, now_ms=ManualClock().now_ms, read_only=False
    )


def put_keys(store: MessageStore, *texts: str, topic: str = "T", flag: int = 0) -> None:
    """Messages with these KEYS, and the text as body."""
    for text in texts:
        properties = f"UNIQ_KEY\x01u{text}\x02KEYS\x01{text}\x02".encode()
        store.put([message(text, topic, properties=properties, sys_flag=flag)])


def found(store: MessageStore, key: str, *, unique: bool = False, count_max: int = 9) -> list[str]:
    """Bodies of the messages with a key."""
    records = store.query("T", key, count_max=count_max, unique=unique)
    return [decode_record(record).body.decode() for record in records]


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", []),
        (b"UNIQ_KEY\x01u\x02", [b"u"]),
        (b"KEYS\x01a  b \x02UNIQ_KEY\x01u\x02", [b"u", b"a", b"b"]),
        (b"UNIQ_KEY\x01u\x02UNIQ_KEY\x01w\x02", [b"w"]),
    ],
)
def test_keys_of_a_message(properties: bytes, keys: list[bytes]) -> None:
    """The unique key first, then the user's."""
    assert keys == keys_in(properties)


def test_a_query_is_up_to_date() -> None:
    """What was just put is found, by each of its keys."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    put_keys(store, "a", "b", "a b")

    assert [["a", "a b"], ["b", "a b"], []] == [found(store, key) for key in ("a", "b", "c")]
    assert store.statistics().indexed_to == store.commit_log.max_offset


def test_topic_and_kind_of_key_are_compared() -> None:
    """A unique key is no user's key."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    put_keys(store, "a", "ua")
    put_keys(store, "a", topic="U")

    assert (["a", "ua"], ["a"]) == (found(store, "ua"), found(store, "ua", unique=True))
    assert [] == found(store, "a", unique=True)


def test_keys_with_equal_hashes_are_told_apart() -> None:
    """Java gives Aa and BB the same hash."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    put_keys(store, "Aa", "BB", "Aa")

    assert ["BB"] == found(store, "BB")


def test_the_newest_messages_count() -> None:
    """Given in the order of the log."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    put_keys(store, *[f"k {number}" for number in range(5)])

    assert ["k 3", "k 4"] == found(store, "k", count_max=2)


def test_times_are_exact() -> None:
    """Though the index knows seconds only."""
    clock = ManualClock(1_700_000_000_900)
    store = open_store(MemoryDisk(), clock, OPTIONS)
    for _ in range(3):
        put_keys(store, "k")
        clock.time_ms += 150

    records = store.query(
        "T", "k", count_max=9, begin_ms=1_700_000_000_901, end_ms=1_700_000_001_050
    )

    assert [1_700_000_001_050] == [decode_record(record).store_ms for record in records]


def test_rollbacks_are_not_indexed() -> None:
    """Half messages and commits are."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    put_keys(store, "a", flag=SysFlag.TRANSACTION_PREPARED)
    put_keys(store, "b", flag=SysFlag.TRANSACTION_ROLLBACK)
    put_keys(store, "c", flag=SysFlag.TRANSACTION_COMMIT)

    assert [["a"], [], ["c"]] == [found(store, key) for key in "abc"]


@pytest.mark.parametrize("count", [1, SLICE_COUNT + 3, FRESH_COUNT_MAX + 3])
def test_what_is_handed_over_is_indexed_as_what_is_read(count: int) -> None:
    """Whether it is one message, several slices, or more than is kept to be handed over."""
    options = attrs.evolve(OPTIONS, mapped_file_size_commit_log=1 << 22, max_index_num=1 << 15)
    disk = MemoryDisk()
    store = open_store(disk, options=options)
    for start in range(0, count, 100):
        store.put(
            [
                message(properties=f"UNIQ_KEY\x01{number}\x02".encode())
                for number in range(start, min(start + 100, count))
            ]
        )
    assert found(store, str(count - 1), unique=True) == ["x"]
    handed_over = index_entries(disk)
    trio.run(store.aclose)
    for name in disk.list_dir(f"{ROOT}/index"):
        disk.remove(f"{ROOT}/index/{name}")

    store = open_store(disk, options=options)

    assert found(store, str(count - 1), unique=True) == ["x"]
    assert handed_over == index_entries(disk)
    assert len(handed_over) > count * 20


@pytest.mark.parametrize("size", [1 << 20, 3 << 20, FRESH_SIZE_MAX + 1])
def test_what_is_handed_over_is_bounded_in_bytes(size: int) -> None:
    """Properties of 32 KiB a message would else be half a gigabyte while the index is behind."""
    disk = MemoryDisk()
    index = follower(open_store(disk, options=OPTIONS), disk)
    kept: weakref.WeakSet[FreshRecords] = weakref.WeakSet()
    for start in range(0, 99 * size, size):
        fresh = FreshRecords(
            start=start,
            end=start + size,
            store_ms=1,
            topics=["T"],
            properties=[b""],
            offsets_py=[start],
        )
        kept.add(fresh)
        index.offer(fresh)
        del fresh
        assert sum(one.size for one in kept) <= FRESH_SIZE_MAX


def test_a_look_up_that_had_to_read_much_is_told() -> None:
    """What is kept since it was written does not count, nor what is indexed by now."""
    options = attrs.evolve(OPTIONS, mapped_file_size_commit_log=1 << 22, max_message_size=1 << 20)
    disk = MemoryDisk()
    store = open_store(disk, options=options)
    while store.commit_log.max_offset <= LOOK_UP_LAG_MAX:
        put_bodies(store, "x" * (1 << 19))
    behind = IndexFollower.open(
        disk, ROOT, store.commit_log, options, now_ms=ManualClock().now_ms, read_only=False
    )

    assert store.index is not None
    store.index.check_near()
    with pytest.raises(IndexBehindError, match="not in the key index yet"):
        behind.check_near()
    behind.index_slice()
    behind.check_near()


def index_entries(disk: MemoryDisk) -> bytes:
    """The entries of the only index file, without header and slots."""
    (name,) = disk.list_dir(f"{ROOT}/index")
    file = disk.open(f"{ROOT}/index/{name}", read_only=True)
    return file.read(HEADER.size, file.size()).rstrip(b"\0")


@pytest.mark.parametrize("puts", [1, 2])
@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_slice_is_bounded(puts: int, *, is_fresh: bool) -> None:
    """The event loop goes on between slices, also within what was written together."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    for _ in range(puts):
        store.put([message(properties=b"KEYS\x01k\x02")] * (2 * SLICE_COUNT // puts))
    index = store.index if is_fresh else follower(store, disk)
    assert index is not None
    index.index_slice()

    assert index.is_behind
    assert index.position == store.commit_log.max_offset // 2

    index.catch_up()

    assert not index.is_behind


def test_records_without_keys_are_passed_over() -> None:
    """They are done with all the same."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    put_bodies(store, "a", "b")
    index = follower(store, disk)
    index.catch_up()

    assert not index.is_behind


def test_what_was_not_flushed_is_indexed_again() -> None:
    """After a power cut the index goes on where its files say that it is."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    put_keys(store, "a", "b")
    found(store, "a")
    trio.run(store.flush)
    disk.power_cut()

    store = open_store(disk, options=OPTIONS)

    assert [["a"], ["b"]] == [found(store, key) for key in "ab"]


def test_an_index_file_beyond_the_log_is_removed() -> None:
    """Else new records at the lost positions would count as indexed."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    put_keys(store, "a")
    trio.run(store.flush)
    put_keys(store, "lost")
    index = follower(store, disk)
    index.catch_up()
    trio.run(index.flush)  # without the log: as RocketMQ may leave it
    disk.power_cut()

    store = open_store(disk, options=OPTIONS)
    put_keys(store, "new")

    assert [["a"], [], ["new"]] == [found(store, key) for key in ("a", "lost", "new")]


def test_files_that_tell_of_lost_records_are_removed() -> None:
    """Of two that were lost: what is stored before the place of the second is found as well."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    put_keys(store, "a")
    trio.run(store.flush)
    put_keys(store, "lost", "gone")
    index = follower(store, disk)
    index.catch_up()
    trio.run(index.flush)
    disk.power_cut()

    store = open_store(disk, options=OPTIONS)
    put_keys(store, "new")

    assert [["a"], [], ["new"]] == [found(store, key) for key in ("a", "gone", "new")]


def test_a_full_disk_does_not_hide_messages() -> None:
    """What is not in the index is looked through."""
    disk = MemoryDisk()
    store = open_store(disk, options=OPTIONS)
    put_keys(store, "a")
    disk.total = disk.usage(ROOT).used

    assert ["a"] == found(store, "a")


@pytest.mark.parametrize("size", [4, 60])
def test_what_stands_behind_a_rotten_record_is_found(size: int) -> None:
    """In its segment and in later ones: else what has arrived could still be moved."""
    disk = MemoryDisk()
    store = open_store(disk, options=small_options(message_index_enable=False))
    put_keys(store, *"abcdefghijkl")
    disk.rot(f"{ROOT}/commitlog/{0:020d}", 4, bytes(size))
    index = follower(store, disk)

    assert [0, 1, 1] == [
        len(index.query("T", key, count_max=9, begin_ms=0, end_ms=1 << 62, unique=False))
        for key in "abl"
    ]
    assert not index.is_behind


def test_without_an_index_nothing_is_found() -> None:
    """It can be switched off."""
    store = open_store(MemoryDisk(), options=small_options(message_index_enable=False))
    put_keys(store, "a")

    assert [] == found(store, "a")
    assert store.statistics().indexed_to == store.commit_log.max_offset
