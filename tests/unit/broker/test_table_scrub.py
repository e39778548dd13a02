"""Tables that change by themselves while a broker serves: put right, from memory at the latest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from broker_rig import ROOT
from fakes import START_MS
from timermq.broker.config_table import ConfigSaver
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_seal import load_seals
from timermq.timerstore.scrub import Scrub, ScrubStatistics
from timermq.timerstore.scrub_note import ScrubNote
from timermq.timerstore.table_scrub import TableScrub
from unit.broker.test_damaged_tables import TABLES, Kept


async def saved(disk: MemoryDisk, name: str) -> Kept:
    """A table that was saved twice."""
    kept = Kept(disk, name)
    for number in range(2):
        TABLES[name][1](kept.table, number)
        await kept.saver.save()
    return kept


def scrubbed(disk: MemoryDisk, saver: ConfigSaver | None = None) -> ScrubStatistics:
    """One pass over the tables."""
    tables = TableScrub(disk, ROOT)
    if saver is not None:
        tables.add_owner(saver.write_again)
    scrub = Scrub((tables,), ScrubNote())
    scrub.begin(START_MS)
    while scrub.is_under_way:
        scrub.step(START_MS)
    return scrub.statistics()


def bytes_of(disk: MemoryDisk, path: str) -> bytes:
    """All bytes of a file on the disk."""
    file = disk.open(path)
    return file.read(0, file.size())


def change(disk: MemoryDisk, path: str, by: Callable[[int], int], *places: int) -> None:
    """Let bytes of a file be others, with the time that it had."""
    file = disk.open(path)
    for at in places:
        file.write(at, bytes([by(file.read(at, 1)[0])]))


@pytest.mark.parametrize("name", TABLES)
async def test_a_sound_table_stays(autojump_clock: MockClock, name: str) -> None:
    """So does one that an operator has edited."""
    time = [START_MS]
    disk = MemoryDisk(now_ms=lambda: time[0])
    kept = await saved(disk, name)
    assert scrubbed(disk, kept.saver).damaged == 0
    time[0] += 1000
    change(disk, kept.path, lambda one: one ^ 0x3, 1, 5, 9)
    edited = bytes_of(disk, kept.path)

    assert scrubbed(disk, kept.saver).damaged == 0
    assert bytes_of(disk, kept.path) == edited


@pytest.mark.parametrize("name", TABLES)
async def test_a_flipped_bit_is_turned_back(autojump_clock: MockClock, name: str) -> None:
    """In the file itself; the seal fits again."""
    disk = MemoryDisk(now_ms=lambda: START_MS)
    kept = await saved(disk, name)
    before = bytes_of(disk, kept.path)
    change(disk, kept.path, lambda one: one ^ 0x10, 3)
    now = scrubbed(disk)
    seal, _ = load_seals(disk, kept.path)

    assert (now.damaged, now.repaired) == (1, 1)
    assert bytes_of(disk, kept.path) == before
    assert seal is not None
    assert seal.fits(before)


@pytest.mark.parametrize("name", TABLES)
async def test_other_damage_is_written_again(autojump_clock: MockClock, name: str) -> None:
    """From memory, where the table is as it was; the damaged file is renamed."""
    disk = MemoryDisk(now_ms=lambda: START_MS)
    kept = await saved(disk, name)
    before = bytes_of(disk, kept.path)
    change(disk, kept.path, lambda one: one ^ 0x3, 1, 5, 9)
    async with trio.open_nursery() as nursery:
        await nursery.start(kept.saver.run)
        now = scrubbed(disk, kept.saver)
        await trio.sleep(6)
        nursery.cancel_scope.cancel()
    again = scrubbed(disk, kept.saver)

    assert (now.damaged, now.repaired, again.damaged) == (1, 1, 0)
    assert bytes_of(disk, kept.path) == before
    assert disk.exists(f"{kept.path}.damaged")


async def test_a_table_without_an_owner_is_counted(autojump_clock: MockClock) -> None:
    """It stays as it is for the next start, which takes its ``.bak``."""
    disk = MemoryDisk(now_ms=lambda: START_MS)
    kept = await saved(disk, "topics")
    change(disk, kept.path, lambda one: one ^ 0x3, 1, 5, 9)

    assert scrubbed(disk).left == 1
    assert scrubbed(disk).left == 1


async def test_a_save_under_way_is_let_alone(autojump_clock: MockClock) -> None:
    """What it replaces is not looked at, and it comes to its end."""
    disk = MemoryDisk(now_ms=lambda: START_MS)
    kept = await saved(disk, "topics")
    change(disk, kept.path, lambda one: one ^ 0x3, 1, 5, 9)
    TABLES["topics"][1](kept.table, 7)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.saver.save)
        await trio.lowlevel.checkpoint()
        for _ in range(3):
            scrubbed(disk, kept.saver)
            await trio.lowlevel.checkpoint()

    assert scrubbed(disk, kept.saver).damaged <= 1
    assert kept.text.encode() == bytes_of(disk, kept.path)
