"""A pair of brokers in memory, on virtual time: the lead changes over, at any moment."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import trio
import trio.testing

from broker_rig import RunningBroker, send_ext
from pair_rig import FOLLOWER, MASTER, Pair, bodies, log_bytes, pair
from timermq.broker.refusal import RefusedError
from timermq.broker.replication.ha_frames import Epoch
from timermq.broker.replication.replica_calls import ReplicaCalls

SENT = 60
LAST_DELAY_MS = 4_000
SEEDS = range(4)


def join_calls(found: Pair) -> None:
    """Let the brokers of a pair reach each other by their addresses."""

    async def open_stream(_host: str, port: int) -> trio.abc.Stream:
        there = {MASTER: found.master, FOLLOWER: found.follower}
        running = next((one for at, one in there.items() if at.endswith(f":{port}")), None)
        if running is None or found.ended[running.broker].is_set():
            raise ConnectionRefusedError(111, "Connection refused")
        return running.connect().stream

    for running in (found.master, found.follower):
        assert running is not None
        running.broker.succession.calls = ReplicaCalls(open_stream)


async def send(running: RunningBroker, name: str, draw: Random) -> bool:
    """Send a message for a moment of the next seconds; whether it was stored."""
    delay_ms = draw.choice([0, 1, 700, LAST_DELAY_MS])
    text = f"UNIQ_KEY\x01{name}\x02WAIT\x01true\x02"
    text += f"TIMER_DELAY_MS\x01{delay_ms}\x02" if delay_ms else ""
    with trio.move_on_after(5):
        answer = await running.connect().call(10, send_ext("T", text, queueId="0"), name.encode())
        return answer.code == 0
    return False


async def started(found: Pair) -> tuple[RunningBroker, RunningBroker]:
    """A master and its follower, linked."""
    master = await found.start_master()
    assert await send(master, "zero", Random(0))
    follower = await found.start_follower()
    await found.linked()
    join_calls(found)
    return master, follower


async def check_arrived(follower: RunningBroker, sent: set[str], *, lost: int = 0) -> None:
    """Each message came once, but for some that were lost."""
    await trio.sleep(LAST_DELAY_MS / 1000 + 2)
    found = Counter(body.decode() for body in await bodies(follower))
    assert {name: count for name, count in found.items() if count != 1} == {}
    assert len(sent - found.keys()) <= lost


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_promotion_at_any_moment(autojump_clock: trio.testing.MockClock, seed: int) -> None:
    """What the follower has is delivered once: what the master had delivered is not again."""
    draw = Random(seed)
    async with pair() as found:
        master, follower = await started(found)
        sent = {"zero"}
        for number in range(SENT):
            assert await send(master, f"m{number}", draw)
            sent.add(f"m{number}")
            await trio.sleep(draw.choice([0, 0.01, 0.3]))
        await found.level()
        end = master.broker.store.commit_log.max_offset
        await found.kill_master()
        report = await follower.broker.succession.promote()
        assert follower.broker.role.is_master
        for number in range(SENT, SENT + 5):
            assert await send(follower, f"m{number}", draw)
            sent.add(f"m{number}")
        await check_arrived(follower, sent)

    assert report.last_epoch >= 1
    assert report.epochs[-1][1] >= end


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_planned_switch_at_any_moment(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    """Nothing that was answered is lost, with sends under way when the master parks."""
    draw = Random(seed)
    async with pair() as found:
        master, follower = await started(found)
        sent = {"zero"}
        refused = 0

        async def send_on(name: str, is_over: trio.Event) -> None:
            nonlocal refused
            number = 0
            while not is_over.is_set():
                number += 1
                leader = follower if follower.broker.role.is_master else master
                if await send(leader, f"{name}-{number}", draw):
                    sent.add(f"{name}-{number}")
                else:
                    refused += 1
                await trio.sleep(draw.choice([0.02, 0.1]))

        is_over = trio.Event()
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(send_on, name, is_over)
            await trio.sleep(draw.uniform(0.5, 3))
            await found.level()
            report = await master.broker.succession.demote(FOLLOWER)
            own = log_bytes(master.broker.store)
            await trio.sleep(0.5)
            is_over.set()
        assert (report.broker_id, follower.broker.role.is_master) == (0, True)
        assert master.broker.next_life is not None
        assert master.broker.next_life.master == FOLLOWER
        await found.ended[master.broker].wait()
        assert log_bytes(follower.broker.store).startswith(own)
        await check_arrived(follower, sent)

    assert len(sent) > 10


async def test_a_follower_without_the_rest_takes_no_lead(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The master leads on when the link is cut in the middle of a switch, and takes sends again."""
    async with pair() as found:
        master, follower = await started(found)
        draw = Random(1)
        assert await send(master, "first", draw)
        await found.level()
        await follower.broker.following.stop()
        assert await send(master, "second", draw)
        with pytest.raises(RefusedError, match=r"FOLLOWER_REFUSES.*BEHIND"):
            await master.broker.succession.demote(FOLLOWER)

        assert master.broker.role.is_master
        assert master.broker.succession.note is None
        assert await send(master, "third", draw)
        await trio.sleep(LAST_DELAY_MS / 1000 + 2)
        assert sorted(await bodies(master)) == [b"first", b"second", b"third", b"zero"]


async def test_a_fenced_master_writes_nothing_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Told of a higher epoch it ends at once: sends are refused, timers do not deliver."""
    async with pair() as found:
        master, _ = await started(found)
        broker = master.broker
        broker.succession.epochs.begin(Epoch(1, 0))
        draw = Random(3)
        for number in range(20):
            assert await send(master, f"m{number}", draw)
        broker.succession.see("10.0.0.9:10911", 2)
        end = broker.store.commit_log.max_offset
        await found.ended[broker].wait()
        await trio.sleep(LAST_DELAY_MS / 1000 + 2)

        assert broker.next_life is not None
        assert broker.store.commit_log.max_offset == end
        broker.abandon()
