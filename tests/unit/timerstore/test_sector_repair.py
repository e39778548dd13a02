"""Damaged sectors of an open log: which can be put right, and by what bytes."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from small_store import ROOT, open_store, put_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.sector_repair import SectorRepair

SEGMENT_SIZE = 4096


async def reopened(disk: MemoryDisk) -> MessageStore:
    """A store of one segment and a half, written by another process and stopped in order."""
    options, clock = small_options(mapped_file_size_commit_log=SEGMENT_SIZE), ManualClock()
    store = open_store(disk, clock, options)
    put_bodies(store, *(f"{number:02d}{'x' * 200}" for number in range(18)))
    await store.aclose()
    return open_store(disk, clock, options)


def rot(disk: MemoryDisk, position: int) -> bytes:
    """Change two words of the sector at a position; the sector as it was."""
    file = disk.open(f"{ROOT}/commitlog/{position // SEGMENT_SIZE * SEGMENT_SIZE:020d}")
    at = position % SEGMENT_SIZE
    before = file.read(at, SECTOR_SIZE)
    file.write(at + 8, bytes(one ^ 1 for one in before[8:24]))
    return before


@pytest.mark.parametrize("position", [0, 1024, SEGMENT_SIZE - SECTOR_SIZE, SEGMENT_SIZE])
async def test_bytes_that_fit(position: int) -> None:
    """They are written; when they are durable the sector counts as sound."""
    disk = MemoryDisk()
    store = await reopened(disk)
    old = store.commit_log.old
    before = rot(disk, position)
    old.note([position])
    repair = SectorRepair(old)
    (one,) = repair.find()

    assert one.position == position
    assert repair.write(one, b"\1" + before[1 : one.size]) is None
    assert repair.write(one, before[: one.size - 1]) is None
    assert old.damaged == {position}
    file = repair.write(one, before[: one.size])
    assert file is not None
    assert file.read(position % SEGMENT_SIZE, SECTOR_SIZE) == before
    assert old.put_back(position)
    assert (old.damaged, repair.find()) == (set(), [])


async def test_the_sector_that_grows() -> None:
    """The last one of the log has a seal that grows with it: it is left to a repair."""
    store = await reopened(MemoryDisk())
    old = store.commit_log.old
    last = store.commit_log.max_offset // SECTOR_SIZE * SECTOR_SIZE
    old.note([last])

    assert SectorRepair(old).find() == []
    assert old.damaged == {last}


async def test_a_sector_that_was_cleaned() -> None:
    """It is forgotten, also when its segment goes between the look and the write."""
    disk = MemoryDisk()
    store = await reopened(disk)
    old = store.commit_log.old
    before = rot(disk, 512)
    old.note([512])
    repair = SectorRepair(old)
    (one,) = repair.find()
    store.commit_log.delete_before(SEGMENT_SIZE)

    assert repair.write(one, before) is None
    assert repair.find() == []
    assert not old.damaged


async def test_what_is_found_is_told() -> None:
    """Once for each sector that was not known to be damaged."""
    old = (await reopened(MemoryDisk())).commit_log.old
    told: list[int] = []
    old.on_damaged = lambda: told.append(len(old.damaged))
    old.note([0, 512])
    old.note([512])
    old.note([1024])

    assert told == [2, 3]
