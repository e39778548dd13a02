"""One file of the memory disk: what of it a power cut leaves."""

from __future__ import annotations

from random import Random

import pytest

from timermq.simulator.disks.memory_node import (
    BLOCK_SIZE,
    SECTOR_SIZE,
    MemoryNode,
    MemorySync,
    block_count,
)


def write(node: MemoryNode, at: int, data: bytes) -> None:
    """Write bytes as the disk does."""
    end = max(node.size, at + len(data))
    if end > node.size:
        node.resize(end)
    node.keep_durable(range(at // BLOCK_SIZE, block_count(at + len(data))))
    assert node.data is not None
    node.data[at : at + len(data)] = data


def synced(data: bytes) -> MemoryNode:
    """A file with durable bytes."""
    node = MemoryNode()
    write(node, 0, data)
    MemorySync.begin(node).finish()
    return node


def content(node: MemoryNode) -> bytes:
    """All bytes of a file."""
    return b"" if node.data is None else node.data[: node.size]


@pytest.mark.parametrize(("size", "count"), [(0, 0), (1, 1), (BLOCK_SIZE, 1), (BLOCK_SIZE + 1, 2)])
def test_a_begun_block_counts_as_one(size: int, count: int) -> None:
    """Space is given out by blocks."""
    assert block_count(size) == count


def test_a_power_cut_takes_what_was_not_synced() -> None:
    """Bytes and length go back; a file that was never synced is empty."""
    node, fresh = synced(b"old" * 2000), MemoryNode()
    write(node, 10, b"new")
    write(node, 6000, b"more")
    write(fresh, 0, b"x")
    for one in (node, fresh):
        one.revert(None)

    assert content(node) == b"old" * 2000
    assert content(fresh) == b""
    assert node.unsynced == {}


def test_a_torn_cut_lets_whole_sectors_through() -> None:
    """A sector is the old or the new one, never a mixture."""
    node = synced(bytes(2 * BLOCK_SIZE))
    write(node, 0, b"\1" * (2 * BLOCK_SIZE))
    node.revert(Random(1))
    sectors = [content(node)[at : at + SECTOR_SIZE] for at in range(0, 2 * BLOCK_SIZE, SECTOR_SIZE)]

    assert set(sectors) == {bytes(SECTOR_SIZE), b"\1" * SECTOR_SIZE}


def test_what_changes_during_a_sync_is_not_synced_by_it() -> None:
    """The sync writes the bytes of its beginning."""
    node = synced(b"aaa")
    write(node, 0, b"bbb")
    sync = MemorySync.begin(node)
    write(node, 0, b"ccc")
    sync.finish()
    node.revert(None)

    assert content(node) == b"bbb"


def test_a_failed_sync_leaves_clean_blocks_that_a_later_one_passes_over() -> None:
    """As in Linux: they show the new bytes until a power cut, unless they are written again."""
    node = synced(b"aaa")
    write(node, 0, b"bbb")
    MemorySync.begin(node).fail()
    MemorySync.begin(node).finish()
    assert content(node) == b"bbb"
    node.revert(None)
    assert content(node) == b"aaa"

    write(node, 0, b"bbb")
    MemorySync.begin(node).fail()
    write(node, 0, b"bbb")
    MemorySync.begin(node).finish()
    node.revert(None)
    assert content(node) == b"bbb"


def test_a_file_that_was_cut_comes_back_whole() -> None:
    """The blocks behind its new end are kept as they were durable."""
    node = synced(b"x" * (BLOCK_SIZE + 9))
    node.resize(5)
    assert content(node) == b"xxxxx"
    node.revert(None)

    assert content(node) == b"x" * (BLOCK_SIZE + 9)
