"""Tests of the listening side, on real loopback sockets."""

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from broker_rig import BROKER, STORE, TIMER, Peer
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions
from timermq.broker.server import COLLECTED_COUNT, bind
from timermq.pipeline.clock.clock import SystemClock
from timermq.remoting import Command
from timermq.remoting.connection import FrameConnection, Received
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk


@asynccontextmanager
async def listening_broker(
    options: BrokerOptions = BROKER, disk: Disk | None = None
) -> AsyncGenerator[Broker, None]:
    """A broker on free ports."""
    broker = await Broker.open(
        disk=disk or MemoryDisk(),
        root="/store",
        options=options,
        store_options=STORE,
        timer_options=TIMER,
        clock=SystemClock(),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield broker
        broker.request_stop()


async def connect(address: str | None, from_host: str | None = None) -> Peer:
    """A connection to ``host:port``, from an address of this machine if one is given."""
    assert address is not None
    host, _, port = address.rpartition(":")
    return Peer(await trio.open_tcp_stream(host, int(port), local_address=from_host))


async def test_both_ports_speak_for_both_roles() -> None:
    """Name server and broker share one dispatcher; ports are free ones when asked for."""
    async with listening_broker() as broker:
        endpoint = broker.endpoint
        assert endpoint.namesrv_listen != endpoint.listen
        assert endpoint.address == endpoint.listen
        for address in (endpoint.listen, endpoint.namesrv_listen):
            peer = await connect(address)
            route = await peer.call(105, {"topic": "TBW102"})
            assert endpoint.address.encode() in route.body
            assert (await peer.call(30, {"topic": "T", "queueId": "0"})).code == 0
            await peer.stream.aclose()


async def test_the_name_server_s_port_can_be_left_out() -> None:
    """The broker's port answers both roles anyway."""
    async with listening_broker(attrs.evolve(BROKER, namesrv_listen_enable=False)) as broker:
        assert broker.endpoint.namesrv_listen is None
        peer = await connect(broker.endpoint.listen)
        assert (await peer.call(105, {"topic": "TBW102"})).code == 0
        await peer.stream.aclose()


async def test_a_mistake_in_reading_ends_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of ours, whatever a peer has sent: it is logged, and all others are served on."""
    read = FrameConnection.requests

    def requests(frames: FrameConnection) -> list[Received]:
        found = read(frames)
        if any(isinstance(one, Command) and one.code == 9_998 for one in found):
            raise ValueError("a mistake")
        return found

    monkeypatch.setattr(FrameConnection, "requests", requests)
    async with listening_broker() as broker:
        good, bad = [await connect(broker.endpoint.listen) for _ in range(2)]
        with capture_logs() as logs:
            await bad.send(Command(9_998))
            assert await bad.receive() is None
        assert (await good.call(30, {"topic": "T", "queueId": "0"})).code == 0
        for peer in (good, bad):
            await peer.stream.aclose()

    assert ["connection failed"] == [one["event"] for one in logs if one["log_level"] == "error"]


async def test_an_end_at_once_is_no_mistake_of_any_connection() -> None:
    """Reactor and connections end in any order, as when a service fails."""
    with capture_logs() as logs:
        async with listening_broker() as broker:
            peers = [await connect(broker.endpoint.listen) for _ in range(20)]
            for peer in peers:
                assert (await peer.call(30, {"topic": "T", "queueId": "0"})).code == 0
            broker.abort()
        for peer in peers:
            await peer.stream.aclose()

    assert [] == [one for one in logs if one["log_level"] == "error"]


async def test_one_connection_too_many_is_turned_away() -> None:
    """It is closed at once; the others go on, and room that is free again is used."""
    async with listening_broker(attrs.evolve(BROKER, connections_max=4)) as broker:
        peers = [await connect(broker.endpoint.listen) for _ in range(2)]
        for peer in peers:
            await peer.call(105, {"topic": "TBW102"})
        extra = await connect(broker.endpoint.namesrv_listen)
        assert await extra.receive() is None
        await extra.stream.aclose()
        assert broker.statistics().connections_turned_away == 1
        assert (await peers[0].call(105, {"topic": "TBW102"})).code == 0
        await peers[0].stream.aclose()
        while broker.statistics().connections == 2:
            await trio.lowlevel.checkpoint()
        again = await connect(broker.endpoint.listen)
        assert (await again.call(105, {"topic": "TBW102"})).code == 0
        await again.stream.aclose()
        await peers[1].stream.aclose()


async def test_connections_of_one_address_leave_room_for_others() -> None:
    """It has half of them; another one has a half of the rest."""
    async with listening_broker(attrs.evolve(BROKER, connections_max=8)) as broker:
        peers: list[Peer] = []
        for host, room in (("127.0.0.1", 4), ("127.0.0.2", 2)):
            for _ in range(room):
                peers.append(await connect(broker.endpoint.listen, host))
                assert (await peers[-1].call(105, {"topic": "TBW102"})).code == 0
            extra = await connect(broker.endpoint.listen, host)
            assert await extra.receive() is None
            await extra.stream.aclose()
        assert broker.statistics().connections == 6
        assert broker.statistics().connections_turned_away == 2
        for peer in peers:
            await peer.stream.aclose()


async def test_the_collector_looks_through_what_is_new_though_as_much_ends() -> None:
    """Connections that come as others go do not add up to what takes a tenth of a second."""
    before, thresholds = gc.get_stats()[1]["collections"], gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        async with listening_broker() as broker:
            for _ in range(2 * COLLECTED_COUNT):
                peer = await connect(broker.endpoint.listen)
                await peer.stream.aclose()
            peer = await connect(broker.endpoint.listen)
            await peer.call(105, {"topic": "TBW102"})
            await peer.stream.aclose()
    finally:
        gc.set_threshold(*thresholds)

    assert gc.get_stats()[1]["collections"] - before >= 2


async def test_a_port_in_use_is_named() -> None:
    """Nothing is touched when the address cannot be had."""
    listener = await bind("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    with pytest.raises(OSError, match=f"listen on 127.0.0.1:{port}: Address already in use"):
        await bind("127.0.0.1", port)
    await listener.aclose()


async def test_a_broker_whose_second_port_is_taken_gives_the_first_back() -> None:
    """A failed start leaves no socket and no store behind."""
    taken = await bind("127.0.0.1", 0)
    port = taken.socket.getsockname()[1]
    disk = MemoryDisk()
    with pytest.raises(OSError, match=f"listen on 127.0.0.1:{port}"):
        await Broker.open(
            disk=disk,
            root="/store",
            options=attrs.evolve(BROKER, namesrv_listen_port=port),
            store_options=STORE,
            timer_options=TIMER,
            clock=SystemClock(),
        )
    await taken.aclose()

    assert not disk.exists("/store/lock")


@pytest.mark.slow
async def test_two_thousand_connections() -> None:
    """They fit, are served, and go away."""
    async with listening_broker() as broker:
        peers = [await connect(broker.endpoint.listen) for _ in range(2_000)]
        for peer in peers:
            assert (await peer.call(105, {"topic": "TBW102"})).code == 0
        assert broker.statistics().connections == 2_000
        for peer in peers:
            await peer.stream.aclose()
