"""The seals of a commit log that is repaired: those of what was written, and all others."""

from __future__ import annotations

import contextlib
import errno

import pytest
from trio.testing import MockClock

from damaged_stores import (
    CHANGING,
    checked,
    clock_at,
    damage_of,
    flip_bit,
    on_disk,
    overwrite,
    records,
    repair,
    small_image,
)
from fakes import START_MS
from simulation.staged_service import ROOT, SMALL_FILES, running
from timermq.repair.backup import NoRoomError
from timermq.simulator.disks.disk_damage import read_image
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_reader import seals_directory

FIRST = f"{ROOT}/commitlog/{0:020d}"


async def test_a_repaired_log_is_sealed(autojump_clock: MockClock) -> None:
    """A flipped bit of a property behind a repair is found and put right, wherever it is."""
    disk = on_disk(await small_image())
    hole = min(records(disk))
    overwrite(disk, FIRST, hole, bytes(100))
    report = await repair(checked(disk))
    whole = records(disk)
    places = [at + data.index(b"REAL_TOPIC") for at, data in whole.items() if b"REAL_TOPIC" in data]
    segment_size = SMALL_FILES.mapped_file_size_commit_log
    for at in (one for one in places if one < segment_size):
        flip_bit(disk, FIRST, at, 1)
        (found,) = damage_of(checked(disk))
        await repair(checked(disk))

        assert (FIRST.removeprefix(f"{ROOT}/"), at) == (found.file, found.offset)

    assert report.is_repaired
    assert len(places) > 10
    assert records(disk) == whole


async def test_a_repair_without_room_leaves_the_seals(autojump_clock: MockClock) -> None:
    """It changes nothing, so what it would have changed is sealed as before."""
    disk = on_disk(await small_image())
    overwrite(disk, FIRST, 0, bytes(100))
    before = read_image(disk, seals_directory(f"{ROOT}/commitlog"))
    disk.total = disk.usage(ROOT).used
    with pytest.raises(NoRoomError):
        await repair(checked(disk))

    assert before
    assert before == read_image(disk, seals_directory(f"{ROOT}/commitlog"))


TO_SECTOR_END = 298
"""Bytes of a body behind which the next record ends two bytes behind the end of a sector."""


async def strayed_into_an_end() -> tuple[MemoryDisk, int, bytes]:
    """A store of which a sector is another, from shortly before the end of an arrived record on.

    Returns:
        The disk, where the record stands, and what it was.
    """
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        bodies = (b"x" * TO_SECTOR_END, b"is damaged", b"behind", b"x" * 3_000, b"last")
        (_, one, *_) = service.store.put(
            [Message("T", 0, body, b"NAME\x01value\x02") for body in bodies]
        )
        at, end = one.end - one.size, one.end
        found = service.store.commit_log.read(at, one.size)
    assert (end - 2) % SECTOR_SIZE == 0
    overwrite(disk, FIRST, end - 2, b"." * SECTOR_SIZE)
    return disk, at, found


def pulled(store: MessageStore, topic: str) -> dict[int, bytes]:
    """What consumers are given of a queue: queue offset to record."""
    found: dict[int, bytes] = {}
    offset = 0
    while (got := store.get(topic, 0, offset, count_max=1, bytes_max=1 << 20)).records:
        (record,) = got.records
        found[decode_record(record).queue_offset] = record
        offset = got.next_offset
    return found


@pytest.mark.parametrize("skip", [*range(12), None])
async def test_damage_that_begins_within_a_record(
    autojump_clock: MockClock, skip: int | None
) -> None:
    """Good by all that it says itself, it is lost, also when a first repair was killed."""
    disk, at, found = await strayed_into_an_end()
    if skip is not None:
        plan = FaultRules(
            FaultRule(operations=CHANGING, fault=Fault(errno.EIO), skip=skip, count=None)
        )
        with contextlib.suppress(OSError):
            await repair(checked(FaultyDisk(disk, ROOT, plan)))
        disk.process_kill()
    assert records(disk)[at] != found
    report = await repair(checked(disk))
    clock = clock_at(START_MS)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        given = pulled(service.store, "T")

    assert report.is_repaired
    assert list(range(5)) == sorted(given)
    assert [1, 2, 3] == [offset for offset, one in given.items() if b"TIMERMQ_LOST" in one]
    assert [] == damage_of(checked(disk))


async def test_what_zeros_have_cut_off_stays_whole(autojump_clock: MockClock) -> None:
    """The record before them ends where they begin: nothing of it is lost."""
    disk, at, found = await strayed_into_an_end()
    overwrite(disk, FIRST, at, found + bytes(SECTOR_SIZE))
    await repair(checked(disk))

    assert found == records(disk)[at]
    assert [] == damage_of(checked(disk))


async def test_a_repair_forgets_no_other_damage(autojump_clock: MockClock) -> None:
    """What only a seal tells is told behind a repair of another place in the segment too."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        message = Message("T", 0, b"body", b"NAME\x01%b\x02" % (b"value" * 240))
        _, lost, _, other, _ = service.store.put([message] * 5)
    overwrite(disk, FIRST, lost.end - lost.size, bytes(100))
    overwrite(disk, FIRST, other.end - 700, b"damage in both")
    report = await repair(checked(disk))
    (left,) = damage_of(checked(disk))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        given = pulled(service.store, "T")

    assert report.is_repaired
    assert [0, 1, 2, 4] == sorted(given), "the fourth is not as it was written"
    assert [1] == [offset for offset, one in given.items() if b"TIMERMQ_LOST" in one]
    assert (other.end - 700) // SECTOR_SIZE * SECTOR_SIZE == left.offset
