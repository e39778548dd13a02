"""A broker with followers, over real sockets: what waits for them, and what operators see."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
import trustme

from broker_rig import BROKER, Peer, pull_ext, send_ext
from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.ha_frames import TransferReader, encode_report
from timermq.broker.replication.link_security import follower_context
from timermq.broker.replication.replication_options import Confirm
from timermq.broker.replication.role import BrokerRole
from timermq.broker.server import bind
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.remoting import ResponseCode
from timermq.remoting.admin_body import decode_properties
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from unit.broker.replication.test_link_security import with_certificate
from unit.broker.test_server import connect, listening_broker

FOLLOWED = attrs.evolve(BROKER, ha_listen_port=0)
SECONDS = 60.0
"""Until a loaded machine has done what takes it milliseconds."""


def followed(**settings: object) -> BrokerOptions:
    """A broker that listens for followers, with these settings."""
    return attrs.evolve(FOLLOWED, **cast("Any", settings))


class Follower:
    """A slave of RocketMQ's: what it got, and when it says so."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.end = 0
        self._reader = TransferReader()

    async def report(self) -> None:
        """Acknowledge the log that it has."""
        await self.stream.send_all(encode_report(self.end))

    async def receive(self, upto: int) -> None:
        """Take the log up to a position, without a word."""
        with trio.fail_after(SECONDS):
            while self.end < upto:
                data = await self.stream.receive_some(65_536)
                assert data
                for one in self._reader.feed(bytes(data)):
                    self.end = one.offset + len(one.body)

    async def follow(self, broker: Broker) -> None:
        """Take what the log has now, and acknowledge it."""
        await self.receive(broker.store.commit_log.max_offset)
        await self.report()


@attrs.frozen(eq=False)
class Served:
    """A broker on free ports, a client of it, and streams that are closed at the end."""

    broker: Broker
    peer: Peer
    streams: AsyncExitStack

    async def open(self, address: str | None) -> trio.SocketStream:
        """A new connection to ``host:port``."""
        assert address is not None
        host, _, port = address.rpartition(":")
        stream = await trio.open_tcp_stream(host, int(port))
        return await self.streams.enter_async_context(stream)

    async def link(self) -> Follower:
        """Link an empty slave of RocketMQ's, and wait until it is known."""
        before = len(self.broker.tables.followers)
        follower = Follower(await self.open(self.broker.endpoint.ha_listen))
        await follower.report()
        await until(lambda: len(self.broker.tables.followers) > before)
        return follower

    @property
    def end(self) -> int:
        """End of the master's log."""
        return self.broker.store.commit_log.max_offset


@asynccontextmanager
async def served(options: BrokerOptions, disk: Disk | None = None) -> AsyncGenerator[Served]:
    """A broker with these options."""
    async with listening_broker(options, disk) as broker, AsyncExitStack() as streams:
        peer = await connect(broker.endpoint.listen)
        await streams.enter_async_context(peer.stream)
        yield Served(broker, peer, streams)


async def until(told: Callable[[], object]) -> None:
    """Wait until something is so."""
    with trio.fail_after(SECONDS):
        while not told():  # noqa: ASYNC110 - it is no event of the test's
            await trio.sleep(0.005)


async def send(peer: Peer) -> int:
    """The code of the answer to a send."""
    return (await peer.call(10, send_ext("T"), b"x")).code


async def test_an_answer_waits_for_the_follower() -> None:
    """SYNC_MASTER: the follower has the message, or the answer says what became of it (11, 12)."""
    options = followed(broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2, slave_timeout_ms=300)
    async with served(options) as found:
        broker, peer = found.broker, found.peer
        assert await send(peer) == ResponseCode.SLAVE_NOT_AVAILABLE
        follower = await found.link()
        assert await send(peer) == ResponseCode.FLUSH_SLAVE_TIMEOUT
        await follower.follow(broker)
        broker.options.slave_timeout_ms = round(1000 * SECONDS)
        async with trio.open_nursery() as nursery:
            codes: list[int] = []

            async def note() -> None:
                codes.append(await send(peer))

            before = found.end
            nursery.start_soon(note)
            await until(lambda: found.end > before)
            await follower.receive(found.end)
            assert codes == []
            await follower.report()

        assert codes == [ResponseCode.SUCCESS]
        assert broker.tables.durable.waiting == 0


async def test_an_asynchronous_master_does_not_wait() -> None:
    """Whatever in_sync_replicas says, as in RocketMQ."""
    options = followed(broker_role=BrokerRole.ASYNC_MASTER, in_sync_replicas=2)
    async with served(options) as found:
        assert await send(found.peer) == ResponseCode.SUCCESS


async def test_consumers_see_what_is_confirmed() -> None:
    """With confirm=replicated not before the follower has it; timers neither."""
    async with served(followed(confirm=Confirm.REPLICATED)) as found:
        broker, peer = found.broker, found.peer
        follower = await found.link()
        assert await send(peer) == ResponseCode.SUCCESS
        await follower.follow(broker)
        await until(lambda: broker.tables.followers.in_sync.members)
        assert await send(peer) == ResponseCode.SUCCESS
        queue = broker.store.queue("T", 0)
        assert queue is not None
        assert queue.max_offset == 1
        pulled = await peer.call(11, pull_ext("T", queueOffset="1", suspendTimeoutMillis="0"))
        assert pulled.code == ResponseCode.PULL_NOT_FOUND
        await follower.follow(broker)
        await until(lambda: queue.max_offset == 2)

        pulled = await peer.call(11, pull_ext("T", queueOffset="1"))
        assert pulled.code == ResponseCode.SUCCESS


async def test_timers_are_delivered_once_they_are_confirmed() -> None:
    """A timer has no place in the wheel before the follower has it, and its delivery no reader."""
    properties = "UNIQ_KEY\x01K1\x02TIMER_DELAY_MS\x0150\x02"
    async with served(followed(confirm=Confirm.REPLICATED)) as found:
        store, peer = found.broker.store, found.peer
        follower = await found.link()
        assert await send(peer) == ResponseCode.SUCCESS
        await follower.follow(found.broker)
        await until(lambda: found.broker.tables.followers.in_sync.members)
        before = found.end
        assert (await peer.call(10, send_ext("T", properties), b"late")).code == 0
        await follower.receive(found.end)
        waiting = store.queue(TIMER_TOPIC, 0)
        assert waiting is None or waiting.max_offset == 0
        assert found.end > before
        end = found.end
        await follower.report()
        await until(lambda: found.end > end)  # the delivery is in the log
        queue = store.queue("T", 0)
        assert queue is not None
        assert queue.max_offset == 1
        await follower.follow(found.broker)

        await until(lambda: queue.max_offset == 2)


async def test_pulls_wait_for_what_stood_in_the_log_at_the_start() -> None:
    """A held pull gets it as soon as a follower has it."""
    disk = MemoryDisk()
    options = followed(confirm=Confirm.REPLICATED)
    async with served(options, disk) as found:
        assert await send(found.peer) == ResponseCode.SUCCESS
    options = attrs.evolve(options, min_in_sync_replicas=2)
    async with served(options, disk) as found:
        codes: list[int] = []
        now = await found.peer.call(11, pull_ext("T", suspendTimeoutMillis="0"))
        assert now.code == ResponseCode.PULL_NOT_FOUND

        async def pull() -> None:
            held = pull_ext("T", sysFlag="6", suspendTimeoutMillis="20000")
            codes.append((await found.peer.call(11, held)).code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            follower = await found.link()
            await follower.receive(found.end)
            assert codes == []
            await follower.report()

        assert codes == [ResponseCode.SUCCESS]


async def test_with_too_few_replicas_sends_are_refused() -> None:
    """Nothing is stored, and the answer says how many there are."""
    options = followed(min_in_sync_replicas=2)
    async with served(options) as found:
        peer = found.peer
        answer = await peer.call(10, send_ext("T"), b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert answer.remark.startswith("IN_SYNC_REPLICAS_NOT_ENOUGH: in-sync replicas not enough")
        assert found.end == 0
        await found.link()

        assert await send(peer) == ResponseCode.SUCCESS


async def test_operators_see_the_followers() -> None:
    """Where they link (26), and how far each is (907)."""
    async with served(followed()) as found:
        broker, peer = found.broker, found.peer
        settings = decode_properties((await peer.call(26)).body)
        assert broker.endpoint.ha_listen == f"127.0.0.1:{settings['haListenPort']}"
        assert settings["timermqReplication"] == "1"
        assert await send(peer) == ResponseCode.SUCCESS
        end = found.end
        follower = await found.link()
        await follower.receive(end)
        status = json.loads((await peer.call(907)).body)
        (row,) = status["haConnectionInfo"]
        assert (status["master"], status["inSyncSlaveNums"]) == (True, 0)
        assert status["masterCommitLogMaxOffset"] == end
        assert (row["slaveAckOffset"], row["diff"], row["inSync"]) == (0, end, False)
        assert row["transferFromWhere"] == end
        await follower.report()
        await until(lambda: broker.tables.followers.acknowledged_by_all() == end)
        status = json.loads((await peer.call(907)).body)

        assert status["inSyncSlaveNums"] == 1
        assert status["haConnectionInfo"][0]["diff"] == 0


async def test_slaves_learn_of_timers_what_their_logs_have() -> None:
    """The checkpoint (60) of a moment whose log they have not is not told."""
    async with served(followed()) as found:
        broker, peer = found.broker, found.peer
        assert (await peer.call(60)).code == ResponseCode.SUCCESS
        assert await send(peer) == ResponseCode.SUCCESS
        follower = await found.link()
        refused = await peer.call(60)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark is not None
        assert refused.remark.startswith("TIMER_CHECK_POINT: no follower has acknowledged")
        await follower.follow(broker)
        await until(lambda: broker.tables.followers.acknowledged_by_all())

        assert len((await peer.call(60)).body) == 56


async def test_replicas_with_certificates(tmp_path: Path) -> None:
    """A follower with a certificate of the authority is taken, one of another is not."""
    options = with_certificate(tmp_path, trustme.CA())
    options = attrs.evolve(options, ha_listen_port=0)
    async with served(options) as found:
        broker = found.broker
        for authority_is_theirs, count in ((True, 0), (False, 1)):
            mine = tmp_path / f"follower-{count}"
            mine.mkdir()
            context = follower_context(
                with_certificate(mine, trustme.CA()) if authority_is_theirs else options
            )
            assert context is not None
            if authority_is_theirs:
                context.verify_mode = ssl.CERT_NONE
            stream = trio.SSLStream(await found.open(broker.endpoint.ha_listen), context)
            try:
                await stream.do_handshake()
                await Follower(stream).report()
                if not count:
                    assert await stream.receive_some() == b""
            except trio.BrokenResourceError:
                assert not count
            await until(functools.partial(_is_linked, broker, count))


def _is_linked(broker: Broker, count: int) -> bool:
    return len(broker.tables.followers) == count


async def test_a_port_in_use_is_refused_by_name() -> None:
    """The setting is named, and the other ports are given back."""
    other = await bind("127.0.0.1", 0)
    port = other.socket.getsockname()[1]
    async with other:
        with pytest.raises(OSError, match=rf"^\[Errno \d+\] ha_listen_port .*{port}: Address"):
            await Endpoint.bind(followed(ha_listen_port=port))
