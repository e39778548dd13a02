"""Damaged sectors of a log that is served: put back from a replica, where it has them."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import ROOT, STORE, RunningBroker, send_ext
from pair_rig import FOLLOWS, Pair, bodies, log_bytes, pair
from timermq.broker.replication import sectors_from_replicas
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.seal_page import SECTOR_SIZE

OFTEN = attrs.evolve(STORE, scrub_bytes_per_second=1 << 20, scrub_interval_hours=1)
NEVER = attrs.evolve(STORE, scrub_bytes_per_second=0)
FOLLOWING = attrs.evolve(FOLLOWS, ha_master_address=None)
LATER_MS = 300_000
SECTORS = (2, 3, 7)
"""Numbers of the sectors that rot: two are neighbours."""


async def send(running: RunningBroker, count: int) -> None:
    """Send messages that are due much later."""
    peer = running.connect()
    for number in range(count):
        body = f"m{number}".ljust(300, ".")
        properties = f"UNIQ_KEY\x01m{number}\x02TIMER_DELAY_MS\x01{LATER_MS}\x02"
        answer = await peer.call(10, send_ext("T", properties), body.encode())
        assert answer.code == 0, answer.remark


def rot(disk: MemoryDisk, sectors: tuple[int, ...] = SECTORS, *, flip: int = 0x10) -> None:
    """Change several words of some sectors of the log."""
    file = disk.open(f"{ROOT}/commitlog/{0:020d}")
    for sector in sectors:
        for at in range(sector * SECTOR_SIZE + 100, sector * SECTOR_SIZE + 200, 4):
            (value,) = file.read(at, 1)
            file.write(at, bytes([value ^ flip]))


async def started(two: Pair) -> tuple[RunningBroker, RunningBroker]:
    """Master and follower, with the same messages in their logs."""
    master = await two.start_master()
    follower = await two.start_follower(FOLLOWING)
    await send(master, 20)
    await two.level()
    return master, follower


async def arrived(two: Pair) -> Counter[str]:
    """The names of messages that the master has delivered, once all are due."""
    assert two.master is not None
    await trio.sleep(LATER_MS / 1000 + 30)
    return Counter(body.decode().rstrip(".") for body in await bodies(two.master))


ALL = Counter(f"m{number}" for number in range(20))


@pytest.mark.parametrize("rotten", ["master", "follower"])
async def test_what_the_scrub_finds(autojump_clock: MockClock, rotten: str) -> None:
    """Either has its sectors back from the other one, before anything in them is due."""
    async with pair(store_options=OFTEN, tells_links=True) as two:
        master, follower = await started(two)
        before = log_bytes(master.broker.store)
        own, disk = (
            (master, two.master_disk) if rotten == "master" else (follower, two.follower_disk)
        )
        rot(disk)
        assert before != log_bytes(own.broker.store)
        await trio.sleep(60)
        scrub = own.broker.timer_store.scrub.statistics()

        assert before == log_bytes(own.broker.store)[: len(before)]
        assert (scrub.damaged, scrub.put_back, scrub.left) == (3, 3, 0)
        assert not own.broker.store.commit_log.old.damaged
        assert ALL == await arrived(two)
        assert master.broker.timer_store.quarantine.active == 0


async def test_what_is_found_when_it_is_due(autojump_clock: MockClock) -> None:
    """A timer waits for its bytes, and is delivered at its moment, not quarantined."""
    async with pair(store_options=NEVER, tells_links=True) as two:
        await started(two)
        await trio.sleep(15)  # all is durable, and known to be
        await two.kill_master()
        rot(two.master_disk)
        master = await two.start_master()
        await trio.sleep(30)  # the follower links, and registers, again

        assert ALL == await arrived(two)
        assert master.broker.timer_store.quarantine.active == 0


async def test_what_no_replica_has_for_now(autojump_clock: MockClock) -> None:
    """It is quarantined when it is due; the replica is asked again, and has it when it is back."""
    async with pair(store_options=NEVER, tells_links=True) as two:
        await started(two)
        await trio.sleep(15)  # all is durable, and known to be
        await two.kill_follower()
        await two.kill_master()
        rot(two.master_disk)
        master = await two.start_master()
        found = await arrived(two)
        broker = master.broker

        assert found < ALL
        assert broker.timer_store.quarantine.active == 20 - found.total()
        assert broker.store.commit_log.old.damaged
        await two.start_follower(FOLLOWING)
        await trio.sleep(600)
        assert not broker.store.commit_log.old.damaged
        assert log_bytes(broker.store) == log_bytes(two.follower.broker.store)  # type: ignore[union-attr]


async def test_a_replica_that_is_damaged_there_too(autojump_clock: MockClock) -> None:
    """Its bytes do not fit the seal: the sector stays as it is, and the others are put back."""
    async with pair(store_options=OFTEN, tells_links=True) as two:
        master, _ = await started(two)
        before = log_bytes(master.broker.store)
        rot(two.follower_disk, (3,), flip=0x20)
        rot(two.master_disk)
        await trio.sleep(60)
        after = log_bytes(master.broker.store)
        differing = {at // SECTOR_SIZE for at in range(len(before)) if before[at] != after[at]}

        assert {3} == differing
        assert {3 * SECTOR_SIZE} == master.broker.store.commit_log.old.damaged


async def test_no_more_than_so_many_in_a_minute(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is asked for in the next one."""
    monkeypatch.setattr(sectors_from_replicas, "SECTORS_PER_MINUTE_MAX", 2)
    async with pair(store_options=NEVER, tells_links=True) as two:
        master, _ = await started(two)
        old = master.broker.store.commit_log.old
        await trio.sleep(120)
        rot(two.master_disk)
        old.note([sector * SECTOR_SIZE for sector in SECTORS])
        await trio.sleep(30)
        assert {7 * SECTOR_SIZE} == old.damaged
        await trio.sleep(90)
        assert not old.damaged
