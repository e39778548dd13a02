"""Looking on, from the client's side."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from scripted_server import BROKER, Connection, Network, Server, always
from timermq.client import (
    BrokerRefusedError,
    ConnectionLostError,
    MalformedAnswerError,
    open_watch,
)
from timermq.client.link import CONNECT_TIMEOUT
from timermq.client.watch import SILENCE_MAX
from timermq.remoting import Command, LocalProtocolError, Snapshot, WatchView
from top_samples import IDLE

WATCH, UNWATCH = 9003, 9004


def pictures(*uptimes_ms: int) -> list[Snapshot]:
    """Pictures that differ in their time."""
    return [attrs.evolve(IDLE, uptime_ms=uptime_ms) for uptime_ms in uptimes_ms]


async def push(server: Server, snapshots: Sequence[Snapshot]) -> None:
    """Send pictures in one piece."""
    connection: Connection = server.connections[-1]
    await connection.push(*(Command(WATCH, flag=2, body=one.encode()) for one in snapshots))


def server_in(nursery: trio.Nursery) -> tuple[Network, Server]:
    """A broker that takes watchers."""
    network = Network(nursery)
    return network, network.server(BROKER, {WATCH: always(), UNWATCH: always()})


async def test_pictures_are_received(nursery: trio.Nursery) -> None:
    """The view is asked for once, and what is pushed comes out."""
    network, server = server_in(nursery)
    view = WatchView(width_ms=60_000, topic="T")
    async with open_watch(BROKER, view, open_stream=network.open_stream) as watch:
        await trio.testing.wait_all_tasks_blocked()
        for one in pictures(1, 2):
            await push(server, [one])
            assert one == await watch.receive()

    (asked,) = server.received
    assert (WATCH, view) == (asked.code, WatchView.decode(asked.body))


async def test_the_newest_counts(nursery: trio.Nursery) -> None:
    """Who is too slow sees the present, not the past one by one."""
    network, server = server_in(nursery)
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        await trio.testing.wait_all_tasks_blocked()
        await push(server, pictures(1, 2, 3))

        assert 3 == (await watch.receive()).uptime_ms


async def test_another_view_and_none(nursery: trio.Nursery) -> None:
    """A change and a stop go over the same connection."""
    network, server = server_in(nursery)
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        await watch.change(WatchView(count=3))
        await watch.stop()
        await trio.testing.wait_all_tasks_blocked()

    assert [WATCH, WATCH, UNWATCH] == [one.code for one in server.received]
    assert 3 == len({one.opaque for one in server.received})
    assert 1 == len(server.connections)


async def test_a_refusal(nursery: trio.Nursery) -> None:
    """The broker's remark is the error."""
    network, server = server_in(nursery)
    server.handlers[WATCH] = always(2, remark="WATCHERS_MAX: 16")
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        with pytest.raises(BrokerRefusedError, match="WATCHERS_MAX: 16"):
            await watch.receive()


async def test_a_malformed_picture(nursery: trio.Nursery) -> None:
    """It is the broker's fault, and named as such."""
    network, server = server_in(nursery)
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        await trio.testing.wait_all_tasks_blocked()
        await server.connections[0].push(Command(WATCH, flag=2, body=b"\xa0"))
        with pytest.raises(
            MalformedAnswerError, match="a:10911: watch: WATCH_BODY: Object missing"
        ):
            await watch.receive()


async def test_the_server_goes(nursery: trio.Nursery) -> None:
    """The end of the connection is an error at once."""
    network, server = server_in(nursery)
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        await trio.testing.wait_all_tasks_blocked()
        await server.connections[0].stream.aclose()
        with pytest.raises(ConnectionLostError, match="a:10911: closed by the server"):
            await watch.receive()


async def test_silence(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """A connection over which nothing comes any more is lost; a watch that was stopped may wait."""
    network, _ = server_in(nursery)
    async with open_watch(BROKER, WatchView(), open_stream=network.open_stream) as watch:
        await watch.stop()
        with trio.move_on_after(1_000) as waiting:
            await watch.receive()
        assert waiting.cancelled_caught

        await watch.change(WatchView())
        with pytest.raises(ConnectionLostError, match="no snapshot within"):
            await watch.receive()
        assert trio.current_time() < 1_000 + SILENCE_MAX + 3


async def test_no_broker_listens(nursery: trio.Nursery) -> None:
    """A connection that is refused is told with its address."""
    network, _ = server_in(nursery)
    with pytest.raises(ConnectionLostError, match="b:1: cannot connect: no broker at b:1"):
        async with open_watch("b:1", WatchView(), open_stream=network.open_stream):
            pass


async def test_no_broker_answers_the_connection(autojump_clock: MockClock) -> None:
    """A connection that takes too long is given up."""

    async def never(_host: str, _port: int) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(ConnectionLostError, match="no connection in time"):
        async with open_watch("b:1", WatchView(), open_stream=never):
            pass
    assert CONNECT_TIMEOUT == trio.current_time()


async def test_no_address() -> None:
    """A text that is no address is the caller's mistake."""
    with pytest.raises(LocalProtocolError):
        async with open_watch("nowhere", WatchView()):
            pass
