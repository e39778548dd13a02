"""Tests of the index layouts and key hashes."""

from __future__ import annotations

import pytest

from golden_vectors import INDEX_ENTRY, INDEX_HEADER
from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.index_layout import (
    ENTRY,
    IndexHeader,
    file_size,
    key_hash,
    key_hashes,
    read_header,
)

GOLDEN = IndexHeader(
    begin_timestamp=1_700_000_000_123,
    end_timestamp=1_700_000_000_123,
    begin_phy_offset=0,
    end_phy_offset=0,
    hash_slot_count=1,
    index_count=2,
)


def file_with(header: bytes, size: int | None = None) -> MemoryFile:
    """A file for 3 slots and 4 entries that begins with a header."""
    file = MemoryDisk().open("/index", create=True)
    file.truncate(file_size(3, 4) if size is None else size)
    file.write(0, header)
    return file


def test_a_java_index_file_has_420_million_bytes() -> None:
    """The size follows from RocketMQ's numbers of slots and entries."""
    assert file_size(5_000_000, 20_000_000) == 420_000_040


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("T#K1", 2538453),
        ("FooBar#Hello", 101609924),
        ("polygenelubricants", 0),
        ("标签", 857175),
    ],
)
def test_key_hashes_are_not_negative(key: str, expected: int) -> None:
    """An entry holds the absolute value, and 0 where an int has none."""
    assert expected == key_hash(key)
    assert [expected] == key_hashes([key.encode()]).tolist()


def test_golden_header() -> None:
    """A header is encoded and read as RocketMQ's."""
    assert INDEX_HEADER == GOLDEN.encode()
    assert GOLDEN == read_header(file_with(INDEX_HEADER), 3, 4)


def test_golden_entry() -> None:
    """An entry is hash, position, seconds and the entry before."""
    assert INDEX_ENTRY == ENTRY.pack(key_hash("T#K1"), 0, 0, 0)


def test_zeros_are_an_empty_file() -> None:
    """A file that counts nothing is empty, whatever else its header says."""
    assert IndexHeader() == read_header(file_with(bytes(40)), 3, 4)
    assert IndexHeader() == read_header(file_with(IndexHeader(end_phy_offset=9).encode()), 3, 4)


def test_a_file_of_other_settings() -> None:
    """The numbers of slots and entries are not in the file; its length gives them away."""
    with pytest.raises(StoreFormatError) as caught:
        read_header(file_with(b"", 100), 3, 4)

    assert str(caught.value) == (
        "/index: at 0: expected 3 slots and 4 entries in 132 bytes, found 100 bytes"
    )


def test_a_header_that_counts_too_much() -> None:
    """More entries than there can be are no header."""
    with pytest.raises(StoreFormatError) as caught:
        read_header(file_with(IndexHeader(index_count=5).encode()), 3, 4)

    assert str(caught.value) == "/index: at 36: expected at most 4, found 5"
