"""Stores that RocketMQ 5.5.1's other engines of timers left are served on.

Virtual time: each pending timer comes on its millisecond, once, as it was sent.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio
import trio.testing

from fakes import VirtualClock
from golden_stores import GoldenStores
from interop.golden_engines import EnginesManifest, engines_manifest
from interop.handed import TOPIC
from interop.test_served_on import FILES, JAVAS_TIMERS, loaded_from
from simulation.staged_service import ROOT, Arrival, arrivals, running
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk

pytestmark = pytest.mark.slow

SERVED = ("g7", "g8")
"""With snapshots of the wheel; with RocksDB timers, killed."""
SERVE_SECONDS = 5 * 3_600.0


def check(manifest: EnginesManifest, found: list[Arrival], start_ms: int) -> None:
    """Each message stands on the topic once; what waited came at its moment, none recalled."""
    times = Counter(one.body for one in found if one.body != "warm-up")
    pending = manifest.in_state("pending")
    stored_ms = {one.body: one.stored_ms for one in found}
    ids = {one.body: one.unique_id for one in found}

    assert dict.fromkeys([*manifest.in_state("delivered"), *pending], 1) == times
    assert {body: max(one.due_ms, start_ms) for body, one in pending.items()} == {
        body: stored_ms[body] for body in pending
    }
    assert {body: one.msg_id for body, one in pending.items()} == {
        body: ids[body] for body in pending
    }


def damage(disk: MemoryDisk, clock: VirtualClock) -> dict[StoreRule, str]:
    """What ``store check`` finds, but for the kill, and entries that RocketMQ 5.5 has more."""
    store = CheckedStore(
        disk=disk,
        root=ROOT,
        store_options=FILES,
        timer_options=JAVAS_TIMERS,
        now_ms=clock.now_ms(),
    )
    return {
        one.rule: f"{one.file}: expected {one.expected}, found {one.found}"
        for one in store.find()
        if one.rule is not StoreRule.INDEX_DIFFERS and one.file != "abort"
    }


@pytest.mark.parametrize("name", SERVED)
async def test_what_they_left_is_sound(
    autojump_clock: trio.testing.MockClock, golden_stores: GoldenStores, tmp_path: Path, name: str
) -> None:
    """A check calls no file damaged that the next start makes again, and no message lost."""
    clock = VirtualClock(engines_manifest(name).stopped_ms + 60_000)
    disk = loaded_from(golden_stores.unpack_copy(name, tmp_path), clock)

    assert {} == damage(disk, clock)


@pytest.mark.parametrize("outage_ms", [1_000, 86_400_000], ids=["at once", "after a day"])
@pytest.mark.parametrize("name", SERVED)
async def test_each_message_once(
    autojump_clock: trio.testing.MockClock,
    golden_stores: GoldenStores,
    tmp_path: Path,
    name: str,
    outage_ms: int,
) -> None:
    """What waits comes; what RocketMQ delivered, recalled or replaced by a roll does not."""
    manifest = engines_manifest(name)
    clock = VirtualClock(manifest.stopped_ms + outage_ms)
    start_ms = clock.now_ms()
    disk = loaded_from(golden_stores.unpack_copy(name, tmp_path), clock)
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(SERVE_SECONDS)
        found = arrivals(service.store, TOPIC)
        statistics = service.statistics()

    check(manifest, found, start_ms)
    assert (0, 0) == (statistics.early, statistics.quarantined)
    assert {} == damage(disk, clock)


@pytest.mark.parametrize("name", SERVED)
async def test_without_a_checkpoint(
    autojump_clock: trio.testing.MockClock, golden_stores: GoldenStores, tmp_path: Path, name: str
) -> None:
    """Then nothing but the logs tells what was done, and it is enough."""
    manifest = engines_manifest(name)
    clock = VirtualClock(manifest.stopped_ms + 1_000)
    start_ms = clock.now_ms()
    disk = loaded_from(golden_stores.unpack_copy(name, tmp_path), clock)
    disk.remove(f"{ROOT}/config/timercheck")
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(SERVE_SECONDS)
        found = arrivals(service.store, TOPIC)

    check(manifest, found, start_ms)


@pytest.mark.parametrize("name", SERVED)
async def test_killed_while_it_takes_over(
    autojump_clock: trio.testing.MockClock, golden_stores: GoldenStores, tmp_path: Path, name: str
) -> None:
    """Kills at the start, in the middle and at the end repeat nothing and forget nothing."""
    manifest = engines_manifest(name)
    clock = VirtualClock(manifest.stopped_ms + 1_000)
    start_ms = clock.now_ms()
    disk = loaded_from(golden_stores.unpack_copy(name, tmp_path), clock)
    for seconds in (0.0, 0.5, 61.0, 2 * 3_600.0, 3 * 3_600.0 + 0.7):
        async with running(
            disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS, stop=False
        ):
            await trio.sleep(seconds)
        disk.process_kill()
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(SERVE_SECONDS)
        found = arrivals(service.store, TOPIC)

    check(manifest, found, start_ms)


async def test_snapshots_go(
    autojump_clock: trio.testing.MockClock, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """RocketMQ would take the newest of them for the wheel, when it comes back."""
    clock = VirtualClock(engines_manifest("g7").stopped_ms + 1_000)
    disk = loaded_from(golden_stores.unpack_copy("g7", tmp_path), clock)
    before = wheel_files(disk)
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS):
        pass

    assert ["timerwheel", "timerwheel.17680", "timerwheel.17836"] == before
    assert ["timerwheel"] == wheel_files(disk)


def wheel_files(disk: MemoryDisk) -> list[str]:
    """The files of the wheel in the store's directory."""
    return [one for one in disk.list_dir(ROOT) if one.startswith("timerwheel")]
