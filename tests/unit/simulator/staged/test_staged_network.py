"""Streams of the simulation keep the contract of sockets: one suite, both of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest
import trio
import trio.testing

from timermq.simulator.scenario import NetworkPlan
from timermq.simulator.staged.staged_network import StagedNetwork
from timermq.simulator.staged.staged_stream import StagedStream

Pair = tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]
Connected = Callable[[], AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def staged_pair() -> AsyncGenerator[Pair]:
    """Two ends of a staged connection whose bytes come in pieces."""
    network = StagedNetwork(Random(1), NetworkPlan(pieces_max=3))
    listener = network.listen()
    ours = await network.connect()
    yield ours, await listener.accept()


@asynccontextmanager
async def socket_pair() -> AsyncGenerator[Pair]:
    """Two ends of a TCP connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        ours = await trio.open_tcp_stream("127.0.0.1", port)
        async with ours, await listener.accept() as theirs:
            yield ours, theirs


@pytest.fixture(params=[staged_pair, socket_pair], ids=["staged", "socket"])
def connected(request: pytest.FixtureRequest) -> Connected:
    """Makes connections of one kind, staged or real."""
    made: Connected = request.param
    return made


async def send_on(stream: trio.abc.SendStream) -> None:
    """Send until the stream breaks, which raises."""
    while True:
        await stream.send_all(b"x" * 1000)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    """Everything up to the end."""
    return b"".join([bytes(data) async for data in stream])


async def test_bytes_arrive_in_order_and_then_the_end(connected: Connected) -> None:
    """Bytes arrive as they were sent, however they are cut on the way."""
    async with connected() as (ours, theirs):
        for number in range(50):
            await ours.send_all(b"%d," % number)
        await ours.aclose()
        assert b"".join(b"%d," % number for number in range(50)) == await read_all(theirs)


async def test_half_of_it_closed(connected: Connected) -> None:
    """Answers still arrive behind the end of the requests."""
    async with connected() as (ours, theirs):
        await ours.send_all(b"last")
        await ours.send_eof()
        assert b"last" == await read_all(theirs)
        await theirs.send_all(b"answer")
        await theirs.aclose()
        assert b"answer" == await read_all(ours)
        with pytest.raises(trio.ClosedResourceError):
            await ours.send_all(b"more")


async def test_sending_to_a_closed_end(connected: Connected) -> None:
    """Sending to a closed peer breaks sooner or later."""
    async with connected() as (ours, theirs):
        await theirs.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await send_on(ours)


async def test_a_closed_end(connected: Connected) -> None:
    """Neither sends nor receives; the waiting task is told."""
    async with connected() as (ours, _theirs):
        await ours.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await ours.receive_some(1)
        with pytest.raises(trio.ClosedResourceError):
            await ours.send_all(b"x")


async def test_a_cancelled_receive_loses_nothing(connected: Connected) -> None:
    """The bytes are there for the next one."""
    async with connected() as (ours, theirs):
        with trio.CancelScope() as scope:
            scope.cancel()
            await theirs.receive_some(10)
        await ours.send_all(b"kept")
        await ours.aclose()
        assert b"kept" == await read_all(theirs)


async def test_one_receives_at_a_time(connected: Connected) -> None:
    """A second task that receives is refused as busy."""
    async with connected() as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(theirs.receive_some, 1)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await theirs.receive_some(1)
        await ours.send_all(b"x")


async def test_unread_bytes_hold_the_sender_up(connected: Connected) -> None:
    """There is a limit to what is under way."""
    async with connected() as (ours, _theirs):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.send_all, bytes(64 << 20))
                await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        assert scope.cancelled_caught


async def test_trios_own_suite() -> None:
    """What every stream of trio's has to do."""

    async def make() -> tuple[StagedStream, StagedStream]:
        network = StagedNetwork(Random(1))
        listener = network.listen()
        return await network.connect(), await listener.accept()

    async def make_clogged() -> tuple[StagedStream, StagedStream]:
        ours, theirs = await make()
        for stream in (ours, theirs):
            await stream.send_all(bytes(NetworkPlan().window_size))
        return ours, theirs

    await trio.testing.check_half_closeable_stream(make, make_clogged)


async def test_no_broker_listens() -> None:
    """As on a real network; and again when somebody has."""
    network = StagedNetwork(Random(1))
    with pytest.raises(ConnectionRefusedError):
        await network.connect()
    listener = network.listen()
    waiting = await network.connect()
    await listener.aclose()
    with pytest.raises(ConnectionRefusedError):
        await network.connect()
    with pytest.raises(trio.BrokenResourceError):
        await waiting.receive_some(1)


async def test_a_cut_loses_what_is_under_way(autojump_clock: trio.testing.MockClock) -> None:
    """Both ends are told; bytes of a slow connection take their time."""
    network = StagedNetwork(Random(1), NetworkPlan(delay_max_ms=400))
    listener = network.listen()
    ours = await network.connect()
    theirs = await listener.accept()
    await ours.send_all(b"first")
    assert trio.current_time() == 0
    assert b"first" == await theirs.receive_some()
    assert 0 < trio.current_time() <= 0.4
    await ours.send_all(b"second")
    network.cut_all()
    for stream in (ours, theirs):
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
