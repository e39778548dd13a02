"""RocksDB databases beside a store's files: whether they are there, and which parts have data.

RocketMQ 5 can keep some things in RocksDB, an embedded database. The data is not read here. Each
table file names the part of the database that it belongs to (the column family) among its
properties, which are never compressed::

    … data blocks … properties block … index of such blocks … footer (53 bytes)

A block is a list of rows. A row has ``shared size, own size, value size`` (varints), the part of
the key that it does not share with the row before, and the value. Behind the rows stand the offsets
of those that share nothing, and their number.

Source: RocksDB ``table/format.cc`` (Footer, BlockHandle), ``table/meta_blocks.cc``; Java
``AbstractRocksDBStorage``.
"""

from __future__ import annotations

from collections.abc import Iterator

from .disk import Disk, File

CURRENT = "CURRENT"
"""The file that makes a directory a database: it names the one that lists the others."""
TABLE_ENDING = ".sst"
FOOTER_SIZE = 53
"""Bytes of the footer of tables since version 1 of their format."""
TABLE_MAGIC = (0x88E241B785F4CFF7).to_bytes(8, "little")
BLOCK_SIZE_MAX = 1 << 20
"""Bytes; the block of properties has about one thousand."""
_INDEX_NAME = b"rocksdb.properties"
_FAMILY_NAME = b"rocksdb.column.family.name"


def has_database(disk: Disk, directory: str) -> bool:
    """Whether a directory holds a database of RocksDB.

    A topic may have that name too: then it is a directory.

    Raises:
        OSError: That cannot be seen.
    """
    path = f"{directory}/{CURRENT}"
    return disk.exists(path) and not disk.is_dir(path)


def holds_family(disk: Disk, directory: str, family: bytes) -> bool:
    """Whether a table of a database has data of a column family.

    Data that is only in the journal does not count. A table whose properties cannot be read counts,
    because it may have such data.

    Args:
        disk: Its disk.
        directory: Of the database; it need not be there.
        family: Name of the part.

    Raises:
        OSError: A file cannot be read.
    """
    for name in disk.list_dir(directory):
        if name.endswith(TABLE_ENDING):
            found = _family_of(disk, f"{directory}/{name}")
            if found is None or found == family:
                return True
    return False


def _family_of(disk: Disk, path: str) -> bytes | None:
    """The column family of a table; None where that cannot be told."""
    file = disk.open(path, read_only=True)
    try:
        return _family_in(file)
    except (IndexError, ValueError):
        return None
    finally:
        file.close()


def _family_in(file: File) -> bytes | None:
    footer = file.read(max(file.size() - FOOTER_SIZE, 0), FOOTER_SIZE)
    if len(footer) < FOOTER_SIZE or not footer.endswith(TABLE_MAGIC):
        return None
    handle = dict(_rows(_block(file, footer[1:]))).get(_INDEX_NAME)
    return None if handle is None else dict(_rows(_block(file, handle))).get(_FAMILY_NAME)


def _block(file: File, handle: bytes) -> bytes:
    """The block at a handle, which is its offset and its size."""
    offset, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    if size > BLOCK_SIZE_MAX:
        raise ValueError(f"block of {size} bytes")
    return file.read(offset, size)


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restart_count = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restart_count + 1)
    at, key = 0, b""
    while at < end:
        shared_size, at = _varint(block, at)
        own_size, at = _varint(block, at)
        value_size, at = _varint(block, at)
        key = key[:shared_size] + block[at : at + own_size]
        at += own_size
        yield key, block[at : at + value_size]
        at += value_size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and where it ends; IndexError if the data ends before."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1
