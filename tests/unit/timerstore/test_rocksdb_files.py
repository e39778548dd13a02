"""RocksDB's table files: which column family they name."""

from __future__ import annotations

import pytest

from rocksdb_tables import put_database, table
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.rocksdb_files import has_database, holds_family

DIRECTORY = "/store/rocksdbstore"


def disk_with(*tables: bytes) -> MemoryDisk:
    """A database with these tables."""
    disk = MemoryDisk(now_ms=lambda: 0)
    put_database(disk, DIRECTORY)
    for number, data in enumerate(tables):
        disk.open(f"{DIRECTORY}/{number:06}.sst", create=True).write(0, data)
    return disk


def test_a_database_is_there() -> None:
    """Its file CURRENT makes it one; a directory alone does not."""
    disk = disk_with()
    disk.make_dirs("/store/empty")

    assert has_database(disk, DIRECTORY)
    assert not has_database(disk, "/store/empty")
    assert not has_database(disk, "/store/missing")


@pytest.mark.parametrize(
    ("families", "holds"),
    [
        ([], False),
        ([b"default"], False),
        ([b"default", b"timer"], True),
        ([b"timer", b"default"], True),
        ([b"timer2"], False),
    ],
)
def test_column_family(families: list[bytes], holds: bool) -> None:
    """One of its tables has data of the column family, or none has."""
    disk = disk_with(*map(table, families))

    assert holds == holds_family(disk, DIRECTORY, b"timer")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        table(b"default")[:-1],
        table(b"default")[40:],
        bytes(200),
        table(b"default")[:-53] + b"\x01" + b"\xff" * 40 + table(b"default")[-12:],
    ],
    ids=["empty", "short", "cut", "moved", "zeros", "huge"],
)
def test_what_cannot_be_read_counts(data: bytes) -> None:
    """It may have data of any column family."""
    assert holds_family(disk_with(data), DIRECTORY, b"timer")


def test_without_a_database() -> None:
    """A directory that is missing holds nothing."""
    assert not holds_family(disk_with(), "/store/missing", b"timer")
