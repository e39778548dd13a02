"""The log of another replica, read in parts: of a master, of a follower, and as of RocketMQ's."""

from __future__ import annotations

import attrs
import pytest
from trio.testing import MockClock

from broker_rig import RunningBroker, send_ext
from pair_rig import (
    FOLLOWER,
    FOLLOWER_PORT,
    FOLLOWS,
    HA_PORT,
    MASTER,
    MASTER_PORT,
    Pair,
    log_bytes,
    pair,
)
from timermq.broker.replication.peer_log import PeerLogError, opened_peer_log

FOLLOWING = attrs.evolve(FOLLOWS, ha_master_address=None)


async def send(running: RunningBroker, count: int) -> None:
    """Store messages without any delay."""
    peer = running.connect()
    for number in range(count):
        answer = await peer.call(10, send_ext("T", f"UNIQ_KEY\x01{number}\x02"), b"x" * 1_000)
        assert answer.code == 0, answer.remark


async def both(two: Pair) -> bytes:
    """Start both, and have them hold the same log, which is returned."""
    master = await two.start_master()
    await two.start_follower(FOLLOWING if two.tells_links else FOLLOWS)
    await send(master, 40)
    await two.level()
    return log_bytes(master.broker.store)


@pytest.mark.parametrize("address", [MASTER, FOLLOWER])
async def test_the_log_of_a_broker_of_ours(autojump_clock: MockClock, address: str) -> None:
    """From any position on, also backwards; the reader is no follower of the one that it reads."""
    async with pair(tells_links=True) as two:
        log = await both(two)
        assert two.master is not None
        followers = two.master.broker.tables.followers
        async with opened_peer_log(address, two.open_stream) as peer:
            assert (peer.start, peer.end) == (0, len(log))
            for first, size in ((0, 100), (50, 10), (9_000, 500), (len(log) - 3, 3), (20_000, 1)):
                found = b""
                while len(found) < size:
                    found += await peer.read(first + len(found), size - len(found))
                assert found == log[first : first + size]
            whole = b""
            while data := await peer.read(len(whole), 7_000):
                whole += data
            assert whole == log
            assert [row.broker_id for row in followers.rows()] == [1]


@pytest.mark.parametrize("first", [0, 1, 12_345])
async def test_the_log_of_a_broker_that_knows_no_greeting(
    autojump_clock: MockClock, first: int
) -> None:
    """As of RocketMQ's, which takes the reader for a slave; 0 would be the newest segment."""
    async with pair() as two:
        log = await both(two)
        place = f"127.0.0.1:{HA_PORT}"
        async with opened_peer_log(MASTER, two.open_stream, ha_address=place) as peer:
            whole = log[:first]
            while data := await peer.read(len(whole), 7_000):
                whole += data

        assert not peer.facts.is_ours
        assert whole == log


async def test_what_it_has_not(autojump_clock: MockClock) -> None:
    """Nothing comes of what is behind its end, and nothing is asked."""
    async with pair(tells_links=True) as two:
        log = await both(two)
        async with opened_peer_log(MASTER, two.open_stream) as peer:
            assert await peer.read(len(log), 10) == b""
            assert await peer.read(-1, 10) == b""
            assert await peer.read(0, 0) == b""


async def test_a_replica_that_cannot_be_read(autojump_clock: MockClock) -> None:
    """Each by the name of a rule: without a link, away, away meanwhile, without the secret."""
    async with pair() as two:
        await two.start_master()
        with pytest.raises(PeerLogError, match=f"^127.0.0.1:{MASTER_PORT}: NO_HA_PORT"):
            async with opened_peer_log(MASTER, two.open_stream):
                pass
        place = f"127.0.0.1:{HA_PORT}"
        with pytest.raises(PeerLogError, match="SECRET"):
            async with opened_peer_log(MASTER, two.open_stream, ha_address=place, secret=b"x" * 16):
                pass
        with pytest.raises(PeerLogError, match=f"^127.0.0.1:{FOLLOWER_PORT}: LINK: no connection"):
            async with opened_peer_log(FOLLOWER, two.open_stream):
                pass
    async with pair(tells_links=True) as two:
        await both(two)
        async with opened_peer_log(MASTER, two.open_stream) as peer:
            await two.kill_master()
            with pytest.raises(PeerLogError, match="LINK: no connection"):
                await peer.read(0, 10)
