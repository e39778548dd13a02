"""A broker that follows changes nothing, and leads from where its log says."""

from __future__ import annotations

import re

import attrs
import trio
from trio.testing import MockClock

from broker_rig import (
    BROKER,
    RunningBroker,
    pull_ext,
    running_broker,
    send_ext,
    split_records,
)
from timermq.broker.compatibility import SERVED
from timermq.broker.replication.parked_requests import PARKED_CODES
from timermq.broker.replication.role import BrokerRole
from timermq.broker.sending.send_processor import SEND_CODES
from timermq.remoting.codes import RequestCode
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.record import decode_record

FOLLOWER = attrs.evolve(BROKER, broker_role=BrokerRole.SLAVE)


async def bodies(running: RunningBroker, topic: str = "T") -> list[bytes]:
    """The bodies in queue 0 of a topic."""
    answer = await running.connect().call(11, pull_ext(topic))
    return [decode_record(data).body for data in split_records(answer.body)]


async def test_requests_that_write_are_refused(autojump_clock: MockClock) -> None:
    """A send gets 14, by which clients try another broker; each other has RocketMQ's code."""
    async with running_broker(options=FOLLOWER) as running:
        peer = running.connect()
        sent = await peer.call(10, send_ext("T"), b"x")
        refused = {code: (await peer.call(code)).code for code in PARKED_CODES}
        pulled = await peer.call(11, pull_ext("T", queueOffset="7"))

        assert (sent.code, (sent.remark or "").partition(":")[0]) == (14, "SLAVE")
        assert refused == PARKED_CODES
        assert (pulled.code, pulled.ext["nextBeginOffset"]) == (20, "7")
        assert running.broker.tables.topics.get("T") is None
        assert running.broker.store.commit_log.max_offset == 0


async def test_what_waits_stays_until_it_leads(autojump_clock: MockClock) -> None:
    """A store opened by a follower delivers nothing that is due; one call lets it lead."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", "TIMER_DELAY_MS\x015000\x02"), b"first")
        await peer.call(10, send_ext("T", "TIMER_DELAY_MS\x0160000\x02"), b"second")
        await trio.sleep(10)
        assert await bodies(running) == [b"first"]
    options = attrs.evolve(FOLLOWER, slave_read_enable=True)
    async with running_broker(disk=disk, options=options) as running:
        end = running.broker.store.commit_log.max_offset
        await trio.sleep(120)
        assert running.broker.unready() is not None
        assert running.broker.store.commit_log.max_offset == end
        assert await bodies(running) == [b"first"]

        await running.broker.lead()
        await trio.sleep(1)
        assert running.broker.unready() is None
        assert await bodies(running) == [b"first", b"second"]
        assert (await running.connect().call(10, send_ext("T"), b"third")).code == 0
        assert await bodies(running) == [b"first", b"second", b"third"]


async def test_a_master_follows_and_leads_again(autojump_clock: MockClock) -> None:
    """What it takes before and behind is delivered once, in each role what belongs to it."""
    options = attrs.evolve(BROKER, slave_read_enable=True)
    async with running_broker(options=options) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", "TIMER_DELAY_MS\x0130000\x02"), b"timer")
        await peer.call(10, send_ext("T"), b"plain")
        await running.broker.follow()
        assert (await peer.call(10, send_ext("T"), b"x")).code == 14
        await trio.sleep(60)
        assert await bodies(running) == [b"plain"]

        await running.broker.lead(BrokerRole.SYNC_MASTER)
        assert (await peer.call(10, send_ext("T"), b"again")).code == 0
        await trio.sleep(60)
        assert running.broker.role.role is BrokerRole.SYNC_MASTER
        assert sorted(await bodies(running)) == [b"again", b"plain", b"timer"]


def test_every_code_is_read_only_or_parked() -> None:
    """A new request that writes has to stand in one of both tables."""
    writes = re.compile("SEND|UPDATE_AND|DELETE_|RESET|CLONE|CLEAN_UNUSED|RETRY|DROP|CANCEL|RECALL")
    harmless = {
        *SEND_CODES,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        # The name server's part, and RocketMQ's requests that change nothing here.
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.RESET_MASTER_FLUSH_OFFSET,
    }
    named = {code for code in SERVED if writes.search(code.name)}
    assert named - harmless - set(PARKED_CODES) == set()
    assert set(PARKED_CODES) <= set(SERVED)
