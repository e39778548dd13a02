"""Records lost in a hole of the log, between a message that waited and what became of it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import checked, clock_at, damage_of, mendable, overwrite, repair
from fakes import START_MS, VirtualClock
from simulation.staged_service import (
    ROOT,
    SMALL_FILES,
    Arrival,
    arrivals,
    arrivals_everywhere,
    running,
    timed,
)
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.repair.store_repair import RepairReport
from timermq.simulator.disks.disk_damage import read_image
from timermq.simulator.disks.memory_disk import MemoryDisk


async def records_of_a_move(
    disk: MemoryDisk, clock: VirtualClock, waits_s: float, moment_ms: int
) -> list[Arrival]:
    """All records of a store in which two messages wait for a minute, and one is moved."""
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        service.put([timed("moved", START_MS + 60_000), timed("other", START_MS + 60_000)])
        await trio.sleep(waits_s)
        service.cancellation.reschedule(Wanted("T", "moved"), moment_ms)
        await trio.sleep(1)
        return arrivals_everywhere(service.store)


async def repaired_behind(
    disk: MemoryDisk, clock: VirtualClock, first: int, end: int
) -> tuple[RepairReport, list[str]]:
    """Cut the power of a store, lose [first, end) of its log and all other files, and repair it.

    Returns:
        What the repair did, and what has arrived a minute later.
    """
    disk.process_kill()
    disk.power_cuts += 1
    for path in read_image(disk, ROOT):
        if "/commitlog/" not in path and not path.endswith("/abort"):
            disk.remove(path)
    overwrite(disk, f"{ROOT}/commitlog/{0:020d}", first, bytes(end - first))
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        await trio.sleep(60)
        arrived = [one.body for one in arrivals(service.store)]
    return report, arrived


async def test_a_roll_that_is_lost_in_a_hole(autojump_clock: MockClock) -> None:
    """The roll behind it tells that the message has rolled: it does not arrive once more."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        service.put([timed("far", START_MS + 60_000)])
        await trio.sleep(45)
        first, second, third, *_ = arrivals(service.store, TIMER_TOPIC)
    report, arrived = await repaired_behind(disk, clock, second.phy_offset, third.phy_offset)

    assert report.is_repaired
    assert [first.body] == arrived == ["far"]
    assert [] == mendable(damage_of(checked(disk, now_ms=clock.now_ms())))


@pytest.mark.parametrize("later", [[], ["later"]], ids=["end of its queue", "among others"])
async def test_a_last_roll_that_is_lost_in_a_hole(
    autojump_clock: MockClock, later: list[str]
) -> None:
    """What it was delivered as tells that the message is done: it does not arrive once more."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        service.put([timed("other", START_MS + 60_000), timed("far", START_MS + 60_000)])
        await trio.sleep(70)
        service.put([timed(one, START_MS + 75_000) for one in later])
        everything = arrivals_everywhere(service.store)
    rolls = [one for one in everything if one.topic == TIMER_TOPIC and one.body == "far"]
    behind = next(one for one in everything if one.phy_offset > rolls[-1].phy_offset)
    report, arrived = await repaired_behind(disk, clock, rolls[-1].phy_offset, behind.phy_offset)

    assert report.is_repaired
    assert len(rolls) > 2
    assert ["far", *later, "other"] == sorted(arrived)
    assert [] == mendable(damage_of(checked(disk, now_ms=clock.now_ms())))


async def test_a_moved_message_that_is_lost_in_a_hole_when_it_has_gone_on(
    autojump_clock: MockClock,
) -> None:
    """Its roll tells that the move was whole: the message does not arrive where it was before."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        service.put([timed("moved", START_MS + 10_000)])
        await trio.sleep(1)
        moved = service.cancellation.reschedule(Wanted("T", "moved"), START_MS + 60_000)
        await trio.sleep(62)
        everything = arrivals_everywhere(service.store)
        assert [one.body for one in arrivals(service.store)] == ["moved"]
    waiting = [one for one in everything if one.topic == TIMER_TOPIC]
    report, arrived = await repaired_behind(
        disk, clock, waiting[2].phy_offset, waiting[3].phy_offset
    )

    assert moved.verdict is Verdict.CANCELLED
    assert ["moved", "0", "moved"] == [one.body for one in waiting[:3]]
    assert report.is_repaired
    assert ["moved"] == arrived


async def test_a_moved_message_whose_delete_is_lost_in_a_hole(autojump_clock: MockClock) -> None:
    """Its old unit waits in the timer log: it goes, for a later start knows nothing of the move."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    everything = await records_of_a_move(disk, clock, 3, START_MS + 8_000)
    disk.process_kill()
    disk.power_cuts += 1
    delete, moved, _second = everything[-3:]
    size = moved.phy_offset - delete.phy_offset
    overwrite(disk, f"{ROOT}/commitlog/{0:020d}", delete.phy_offset, bytes(size))
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES):
        await trio.sleep(15)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        await trio.sleep(60)
        arrived = [one.body for one in arrivals(service.store)]

    assert delete.body == "0"
    assert ("moved", TIMER_TOPIC) == (moved.body, moved.topic)
    assert report.is_repaired
    assert ["moved", "other"] == arrived


async def test_a_moved_message_whose_delete_and_roll_are_lost_in_a_hole(
    autojump_clock: MockClock,
) -> None:
    """The message with its new moment is there alone: it does not arrive at the old one as well."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    everything = await records_of_a_move(disk, clock, 30, START_MS + 65_000)
    waiting = [one for one in everything if one.body in ("moved", "0")]
    *_, delete, moved, _second = waiting
    report, arrived = await repaired_behind(disk, clock, waiting[1].phy_offset, moved.phy_offset)

    assert len(waiting) > 4
    assert ("0", "moved") == (delete.body, moved.body)
    assert report.is_repaired
    assert ["moved", "other"] == sorted(arrived)
