"""Tests of the store checkpoint."""

from __future__ import annotations

import pytest

from golden_stores import GoldenStores
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_checkpoint import PAGE_SIZE, StoreCheckpoint

PATH = "/store/checkpoint"

VECTOR_K = bytes.fromhex(
    "0000018bcfe5687b 0000018bcfe56864 0000000000000000 0000000000000000 0000000000000063"
)


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty store."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def test_golden_bytes() -> None:
    """The five fields stand where RocketMQ has them."""
    checkpoint = StoreCheckpoint(
        physic_msg_timestamp=1_700_000_000_123,
        logics_msg_timestamp=1_700_000_000_100,
        confirm_phy_offset=99,
    )

    assert checkpoint.encode() == VECTOR_K
    assert checkpoint.min_timestamp == 1_699_999_997_100
    assert StoreCheckpoint.decode(VECTOR_K).encode() == VECTOR_K


def test_the_durable_position_stands_behind_the_fields() -> None:
    """It does not count when RocketMQ has rewritten the fields before it."""
    page = StoreCheckpoint(physic_msg_timestamp=7, durable_py=1 << 33).encode()
    changed = (8).to_bytes(8) + page[8:]

    assert page[:40] == StoreCheckpoint(physic_msg_timestamp=7).encode()
    assert StoreCheckpoint.decode(page).durable_py == 1 << 33
    assert StoreCheckpoint.decode(changed).durable_py is None
    assert StoreCheckpoint.decode(page[:-1]).durable_py is None


@pytest.mark.parametrize("name", ["g1", "g4"])
def test_files_of_rocketmq(golden_stores: GoldenStores, name: str) -> None:
    """What RocketMQ's own classes read of a stopped store is read here."""
    store = golden_stores[name]
    found = StoreCheckpoint.open(OsDisk(), f"{store.root}/checkpoint", read_only=True)
    expected = store.manifest.state.checkpoint

    assert (
        found.physic_msg_timestamp,
        found.logics_msg_timestamp,
        found.index_msg_timestamp,
        found.master_flushed_offset,
    ) == (
        expected.physic_msg_timestamp,
        expected.logics_msg_timestamp,
        expected.index_msg_timestamp,
        expected.master_flushed_offset,
    )


@pytest.mark.parametrize(
    ("physic", "logics", "expected"),
    [(0xAABB, 0xCCDD, 0xAABB - 3000), (0xCCDD, 0xAABB, 0xAABB - 3000), (2999, 9999, 0), (0, 0, 0)],
)
def test_min_timestamp(physic: int, logics: int, expected: int) -> None:
    """Three seconds before the older of log and queues, never below zero."""
    checkpoint = StoreCheckpoint(physic_msg_timestamp=physic, logics_msg_timestamp=logics)

    assert checkpoint.min_timestamp == expected


def test_a_missing_page_is_created(disk: MemoryDisk) -> None:
    """A new store has a whole page of zeros."""
    checkpoint = StoreCheckpoint.open(disk, PATH)

    assert disk.open(PATH).read(0, 5000) == bytes(PAGE_SIZE)
    assert checkpoint.min_timestamp == 0


def test_read_only_creates_nothing(disk: MemoryDisk) -> None:
    """A tool that looks at a store without a checkpoint leaves it so."""
    checkpoint = StoreCheckpoint.open(disk, PATH, read_only=True)
    checkpoint.close()

    assert checkpoint.physic_msg_timestamp == 0
    assert not disk.exists(PATH)


async def test_flush_is_durable(disk: MemoryDisk) -> None:
    """After a flush the values survive a power cut; a write alone does not."""
    checkpoint = StoreCheckpoint.open(disk, PATH)
    disk.sync_dir_now("/store")
    checkpoint.index_msg_timestamp = 7
    await checkpoint.flush(disk)
    checkpoint.index_msg_timestamp = 8
    checkpoint.write()
    disk.power_cut()
    checkpoint.close()

    assert StoreCheckpoint.open(disk, PATH).index_msg_timestamp == 7


@pytest.mark.parametrize("size", [0, 40, 4095])
def test_a_short_page_is_filled_up(disk: MemoryDisk, size: int) -> None:
    """A power cut at creation may leave less than a page; RocketMQ maps a whole one."""
    disk.open(PATH, create=True).write(0, VECTOR_K.ljust(size, b"\0")[:size])
    checkpoint = StoreCheckpoint.open(disk, PATH)

    assert checkpoint.confirm_phy_offset == (99 if size else 0)
    assert disk.open(PATH).size() == PAGE_SIZE


def test_half_a_field_is_refused(disk: MemoryDisk) -> None:
    """A file that is no checkpoint is reported and left as it is."""
    disk.open(PATH, create=True).write(0, b"x" * 39)
    with pytest.raises(StoreFormatError) as error:
        StoreCheckpoint.open(disk, PATH)

    assert str(error.value) == "/store/checkpoint: at 0: expected 40 bytes, found 39"
    assert disk.open(PATH).size() == 39
