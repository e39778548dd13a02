"""Families of metrics: which role a broker has, and how far it is behind its master."""

from __future__ import annotations

import struct

import trio
from trio.testing import MockClock

from broker_rig import RunningBroker, send_ext
from pair_rig import pair


async def values(running: RunningBroker) -> dict[str, float]:
    """The samples of the master's families without labels, by name."""
    text = (await running.broker.metrics_page.text()).decode()
    lines = [line for line in text.splitlines() if line.startswith("timermq_")]
    return {
        line.partition("{")[0].partition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines
    }


async def test_a_follower_tells_how_far_behind_it_is(autojump_clock: MockClock) -> None:
    """A master has the first family alone; one that never had all has no time."""
    async with pair() as two:
        master = await two.start_master()
        await master.connect().call(10, send_ext("T"), b"x")
        follower = await two.start_follower()
        assert "timermq_master_behind_seconds" not in await values(follower)
        await two.level()
        await trio.sleep(5)
        found = await values(follower)
        assert found["timermq_is_master"] == 0
        assert found["timermq_master_linked"] == 1
        assert found["timermq_master_behind_bytes"] == 0
        assert found["timermq_master_behind_seconds"] == 0
        assert (await values(master))["timermq_is_master"] == 1
        assert "timermq_master_linked" not in await values(master)

        assert found["timermq_epoch"] == 0
        await two.kill_master()
        await trio.sleep(100)
        found = await values(follower)
        assert found["timermq_master_linked"] == 0
        assert 90 < found["timermq_master_behind_seconds"] <= 105


async def test_a_promotion_shows_in_metrics_and_checkpoint(autojump_clock: MockClock) -> None:
    """RocketMQ's master that comes back compares the checkpoints' versions, the epoch first."""
    async with pair() as two:
        master = await two.start_master()
        await master.connect().call(10, send_ext("T"), b"x")
        follower = await two.start_follower()
        await two.level()
        await two.kill_master()
        await follower.broker.succession.promote()
        await trio.sleep(5)

        found = await values(follower)
        assert (found["timermq_is_master"], found["timermq_epoch"]) == (1, 2)
        answer = await follower.connect().call(60)
        state_version, _, counter = struct.unpack_from(">3q", answer.body, 32)
        assert (state_version, counter > 0) == (2, True)
