"""Kills and power cuts while messages go to the quarantine, are retried, or dropped."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock

from fakes import VirtualClock
from simulation.poison import (
    REFUSED_TOPIC,
    bodies,
    entries,
    javas,
    only_entry,
    poison,
    put_poison,
)
from simulation.staged_service import ROOT, SMALL_FILES, SYNC_FILES, arrivals, running, timed
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.quarantine.quarantine_release import Verdict
from timermq.pipeline.records.system_topics import QUARANTINE_TOPIC
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_options import StoreOptions

Crash = Callable[[MemoryDisk, int], None]


def kill(disk: MemoryDisk, seed: int) -> None:
    """What is in the page cache stays."""
    disk.process_kill()


def power_cut(disk: MemoryDisk, seed: int) -> None:
    """Of what was not synced some sectors have reached the disk."""
    disk.power_cut(Random(seed) if seed % 3 else None)


@pytest.mark.parametrize("crash", [kill, power_cut])
@pytest.mark.parametrize("files", [SYNC_FILES, SMALL_FILES], ids=["sync", "async"])
async def test_a_crash_around_quarantine(
    autojump_clock: MockClock, files: StoreOptions, crash: Crash
) -> None:
    """At any moment: in the end each is in quarantine once, and everything else has arrived."""
    for seed in range(24):
        disk, clock = MemoryDisk(), VirtualClock()
        start_ms = clock.now_ms()
        slot_ms = start_ms // 1000 * 1000 + 2_000
        async with running(disk, clock, store_options=files, stop=False) as service:
            service.put([timed("good", start_ms + 2_500)])
            put_poison(
                service,
                poison(f"TIMER_OUT_MS={slot_ms}"),
                poison(*javas(REFUSED_TOPIC, out_ms=slot_ms), key="Q"),
            )
            assert await service.store.wait_flushed(service.store.commit_log.max_offset)
            await trio.sleep((0, 1.999, 2, 2.001, 3.001, 3.6)[seed % 6])
            for _ in range(seed * 2):
                await trio.lowlevel.checkpoint()
        crash(disk, seed)
        async with running(disk, clock, store_options=files) as service:
            await trio.sleep(30)
            assert sorted(one.unique_id for one in entries(service)) == ["P", "Q"], seed
            assert bodies(service) == ["good"], seed
            assert len(arrivals(service.store, QUARANTINE_TOPIC)) == 2, seed


@pytest.mark.parametrize("crash", [kill, power_cut])
@pytest.mark.parametrize("flushed", [True, False])
async def test_a_crash_around_a_retry(
    autojump_clock: MockClock, crash: Crash, flushed: bool
) -> None:
    """Either it has arrived and is done, or it is in quarantine; what was told stays true."""
    outcomes: set[tuple[int, int]] = set()
    for seed in range(40):
        disk, clock = MemoryDisk(), VirtualClock()
        async with running(disk, clock, store_options=SYNC_FILES, stop=False) as service:
            body = bytes([65 + seed % 26]) * (600 + seed * 40)
            put_poison(service, poison(body=body))
            await trio.sleep(3)
            origin_py = only_entry(service).origin_py
            released = service.release.retry(origin_py, by="me", topic="T")
            assert released.verdict is Verdict.RETRIED
            if flushed:
                assert await service.store.wait_flushed(released.end)
        crash(disk, seed)
        async with running(disk, clock, store_options=SYNC_FILES, stop=False) as service:
            await trio.sleep(3)
            outcome = len(arrivals(service.store)), len(entries(service))
            assert outcome in ((1, 0), (0, 1)), seed
            assert not flushed or outcome == (1, 0)
            outcomes.add(outcome)
            again = service.release.retry(origin_py, by="me", topic="T")
            assert again.verdict is Verdict.RETRIED
            assert await service.store.wait_flushed(again.end)
        disk.power_cut()
        async with running(disk, clock, store_options=SYNC_FILES) as service:
            await trio.sleep(3)
            assert (len(arrivals(service.store)), entries(service)) == (1, []), seed
            assert service.quarantine.state(origin_py) is State.RETRIED
    if crash is power_cut and not flushed:
        assert (0, 1) in outcomes
    else:
        assert outcomes == {(1, 0)}


async def test_a_mark_without_its_message_counts_as_nothing(autojump_clock: MockClock) -> None:
    """A power cut has left the first of the two records of a retry; the second try is the one."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=False) as service:
        put_poison(service, poison())
        await trio.sleep(3)
        origin_py = only_entry(service).origin_py
        service.release.retry(origin_py, by="me", topic="T")
        (arrival,) = arrivals(service.store)
    disk.process_kill()
    disk.power_cuts += 1
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    file.write(arrival.phy_offset, bytes(2_000))
    for before in ([], ["between"]):
        async with running(disk, clock) as service:
            assert (bodies(service), only_entry(service).origin_py) == (before, origin_py)
            service.put([timed("between", clock.now_ms())])
    async with running(disk, clock) as service:
        service.release.retry(origin_py, by="me", topic="T")
    async with running(disk, clock) as service:
        await trio.sleep(9)
        assert (bodies(service), entries(service)) == (["between", "between", "poison"], [])


@pytest.mark.parametrize("crash", [kill, power_cut])
async def test_a_crash_after_a_drop(autojump_clock: MockClock, crash: Crash) -> None:
    """What was told is true."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, store_options=SYNC_FILES, stop=False) as service:
        put_poison(service, poison())
        await trio.sleep(3)
        origin_py = only_entry(service).origin_py
        dropped = service.release.drop(origin_py, by="me")
        assert await service.store.wait_flushed(dropped.end)
    crash(disk, 0)
    async with running(disk, clock, store_options=SYNC_FILES) as service:
        await trio.sleep(3)
        assert entries(service) == []
        retried = service.release.retry(origin_py, by="me", topic="T")
        assert retried.verdict is Verdict.DROPPED
        assert bodies(service) == []


# -- files that are cleaned, disks that are full --------------------------------------------------
