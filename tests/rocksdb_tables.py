"""Table files of RocksDB with nothing but their notes: what tells which column family has data."""

from __future__ import annotations

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.rocksdb_files import TABLE_MAGIC

CHECK = b"\x00" + bytes(4)
"""Behind each block: not compressed, and a checksum that is not looked at."""


def varint(number: int) -> bytes:
    """A number as RocksDB writes it, seven bits a byte."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(found) + bytes([number])


def block(rows: list[tuple[bytes, bytes]]) -> bytes:
    """A block whose keys leave out what they share with the one before."""
    data, before = bytearray(), b""
    for key, value in rows:
        shared = 0
        while shared < min(len(key), len(before)) and key[shared] == before[shared]:
            shared += 1
        own = key[shared:]
        data += varint(shared) + varint(len(own)) + varint(len(value)) + own + value
        before = key
    return bytes(data) + bytes(4) + (1).to_bytes(4, "little")


def table(family: bytes) -> bytes:
    """A table file of a column family."""
    data = b"whatever stands in it" * 10
    properties = block(
        [
            (b"rocksdb.column.family.id", b"\x01"),
            (b"rocksdb.column.family.name", family),
            (b"rocksdb.comparator", b"leveldb.BytewiseComparator"),
        ]
    )
    at = len(data)
    data += properties + CHECK
    index = block(
        [
            (b"fullfilter.rocksdb.BuiltinBloomFilter", varint(0) + varint(9)),
            (b"rocksdb.properties", varint(at) + varint(len(properties))),
        ]
    )
    handle = varint(len(data)) + varint(len(index))
    data += index + CHECK
    footer = b"\x01" + handle.ljust(40, b"\x00") + (5).to_bytes(4, "little") + TABLE_MAGIC
    return data + footer


def put_database(disk: MemoryDisk, directory: str, family: bytes | None = None) -> None:
    """Make a directory a database, with a table of a column family or without any."""
    disk.make_dirs(directory)
    disk.open(f"{directory}/CURRENT", create=True).write(0, b"MANIFEST-000005\n")
    if family is not None:
        disk.open(f"{directory}/000013.sst", create=True).write(0, table(family))
