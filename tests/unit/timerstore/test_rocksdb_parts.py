"""Stores with queues or tables in RocksDB are refused, with the steps to take."""

from __future__ import annotations

import pytest

from rocksdb_tables import put_database
from simulation.staged_service import SMALL_FILES
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreKindError
from timermq.timerstore.message import NO_HOST, Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.rocksdb_files import CURRENT
from timermq.timerstore.rocksdb_parts import PARTS, RocksdbPart, check_parts
from timermq.timerstore.store_options import StoreOptions


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.directory)
@pytest.mark.parametrize("read_only", [False, True])
def test_refused(part: RocksdbPart, read_only: bool) -> None:
    """Each part is named with its place, and says what to move where; nothing is written."""
    disk = MemoryDisk(now_ms=lambda: 0)
    put_database(disk, f"/store/{part.directory}")

    with pytest.raises(StoreKindError) as refused:
        MessageStore.open(
            disk,
            "/store",
            StoreOptions(),
            now_ms=lambda: 0,
            store_host=NO_HOST,
            read_only=read_only,
        )

    message = str(refused.value)
    assert message.startswith(f"/store/{part.directory}: expected {part.what} in {part.expected}")
    assert f"move {part.directory} out of the store" in message
    assert "{root}" not in message
    assert not disk.exists("/store/commitlog")
    assert not disk.exists("/store/abort")


def test_all_are_named() -> None:
    """A store that has several is told of each at once."""
    disk = MemoryDisk(now_ms=lambda: 0)
    for part in PARTS:
        put_database(disk, f"/store/{part.directory}")

    with pytest.raises(StoreKindError) as refused:
        check_parts(disk, "/store")

    assert len(PARTS) == str(refused.value).count("which timermq does not read")


def test_timers_and_indexes_are_none_of_them() -> None:
    """The database that RocketMQ 5.4 always makes says nothing of queues or tables."""
    disk = MemoryDisk(now_ms=lambda: 0)
    put_database(disk, "/store/rocksdbstore", b"timer")

    check_parts(disk, "/store")


def test_a_topic_named_as_a_file_of_rocksdb() -> None:
    """Its queues stand in a directory of that name, and the store opens again."""
    disk = MemoryDisk(now_ms=lambda: 0)
    store = MessageStore.open(disk, "/store", SMALL_FILES, now_ms=lambda: 1_000, store_host=NO_HOST)
    (stored,) = store.put([Message(CURRENT, 0, b"a", b"")])

    assert stored.status.is_stored
    assert disk.is_dir(f"/store/consumequeue/{CURRENT}")
    check_parts(disk, "/store")
