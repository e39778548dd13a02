"""Tests of routes: which name servers are asked, how long routes are kept, and the template."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from scripted_server import NAMESRV, Network, Server, always, name_server, route, silent
from timermq.client import (
    BrokerRefusedError,
    ClientError,
    ConnectionLostError,
    MalformedAnswerError,
    NoRouteError,
)
from timermq.client.background import BackgroundTasks
from timermq.client.link import Links
from timermq.client.route import FRESH_SECONDS, QUEUE_NUMS_MAX, Routes, TopicQueue, name_servers

OTHER = "ns:9877"


@asynccontextmanager
async def routes_of(network: Network, *servers: str) -> AsyncGenerator[Routes]:
    """The routes of a client of some name servers."""
    async with BackgroundTasks() as tasks:
        links = Links(tasks, lambda _address, _command: None, network.open_stream)
        yield Routes(links, list(servers) or [NAMESRV], trio.current_time)


def queue(queue_id: int, *, topic: str = "T") -> TopicQueue:
    """A queue on the only broker."""
    return TopicQueue(topic, "broker-a", queue_id, "a:10911")


def test_queues_are_short_in_logs() -> None:
    """A log line names the queue as people write it, not by its fields."""
    assert "T/3@broker-a" == str(queue(3))


def test_name_servers() -> None:
    """Several are separated by semicolons."""
    assert ["a:1", "b:2"] == name_servers(" a:1 ;b:2;")


@pytest.mark.parametrize("text", ["", " ; ", "a", "a:1;b", "a:x"])
def test_names_that_are_no_servers(text: str) -> None:
    """Each one has a host and a port."""
    with pytest.raises(ValueError, match=r"^name servers: .*expected host:port"):
        name_servers(text)


async def test_a_route_is_kept_for_a_while(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After thirty seconds the name server is asked again."""
    network = Network(nursery)
    server = name_server(network, {"T": route(queues=2)})
    async with routes_of(network) as routes:
        for _ in range(2):
            assert [queue(0), queue(1)] == await routes.writable("T")
            assert [queue(0), queue(1)] == await routes.readable("T")
        assert 1 == len(server.received)
        await trio.sleep(FRESH_SECONDS)
        await routes.find("T")
        assert 2 == len(server.received)
        routes.doubt("T")
        routes.doubt("unknown")
        await routes.find("T")

    assert ["T"] * 3 == [one.ext["topic"] for one in server.received]


async def test_the_template_stands_in(nursery: trio.Nursery) -> None:
    """A topic that is not there is made on first send, with at most four queues."""
    network = Network(nursery)
    name_server(network, {"TBW102": route(queues=8, perm=7)})
    async with routes_of(network) as routes:
        writable = await routes.writable("New")
        readable = await routes.readable("New")

    assert [queue(n, topic="New") for n in range(4)] == writable
    assert [] == readable


async def test_without_the_template_there_is_no_route(nursery: trio.Nursery) -> None:
    """The error names the topic that was asked for."""
    network = Network(nursery)
    name_server(network, {})
    async with routes_of(network) as routes:
        with pytest.raises(NoRouteError, match=r"^topic New: no such topic$"):
            await routes.writable("New")


@pytest.mark.parametrize(
    "body", [route(perm=4), route(address=""), route(queues=0)], ids=["perm", "master", "queues"]
)
async def test_queues_that_cannot_be_written(body: bytes, nursery: trio.Nursery) -> None:
    """Permission, master and queues must be there."""
    network = Network(nursery)
    name_server(network, {"T": body})
    async with routes_of(network) as routes:
        with pytest.raises(NoRouteError, match=r"^topic T: no queue that can be written$"):
            await routes.writable("T")


async def test_a_route_without_a_queue_to_write_is_not_kept(nursery: trio.Nursery) -> None:
    """The master of a name may change at any moment."""
    network = Network(nursery)
    routes_there = {"T": route(address="")}
    name_server(network, routes_there)
    async with routes_of(network) as routes:
        with pytest.raises(NoRouteError):
            await routes.writable("T")
        routes_there["T"] = route(queues=1)
        assert [queue(0)] == await routes.writable("T")


async def test_queues_that_cannot_be_read(nursery: trio.Nursery) -> None:
    """Without the permission there is nothing to read."""
    network = Network(nursery)
    name_server(network, {"T": route(perm=2)})
    async with routes_of(network) as routes:
        assert [] == await routes.readable("T")


@pytest.mark.parametrize("kind", ["refuses", "silent", "malformed", "not ready"])
async def test_the_next_name_server_is_asked(
    kind: str, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A name server that is down, hangs, talks nonsense or is starting delays no client."""
    network = Network(nursery)
    handlers = {
        "silent": silent,
        "malformed": always(body=b"[]"),
        "not ready": always(1, remark="starting"),
    }
    if kind in handlers:
        network.server(NAMESRV, {105: handlers[kind]})
    name_server(network, {"T": route()}, OTHER)
    async with routes_of(network, NAMESRV, OTHER) as routes:
        assert [queue(0)] == await routes.writable("T")


@pytest.mark.parametrize("servers", [(NAMESRV, OTHER), (OTHER, NAMESRV)])
async def test_no_route_counts_for_more_than_silence(
    servers: tuple[str, str], nursery: trio.Nursery
) -> None:
    """One server that says so is enough, in whatever order they are asked."""
    network = Network(nursery)
    name_server(network, {})
    async with routes_of(network, *servers) as routes:
        with pytest.raises(NoRouteError):
            await routes.find("T")


async def test_old_routes_serve_while_no_server_answers(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Brokers work without name servers, so clients do; a topic that is gone is gone."""
    network = Network(nursery)
    known: dict[str, bytes] = {"T": route()}
    server = name_server(network, known)
    async with routes_of(network) as routes:
        before = await routes.find("T")
        server.refuses = True
        await server.connections[0].stream.aclose()
        await trio.sleep(FRESH_SECONDS)
        assert before == await routes.find("T")
        with pytest.raises(ConnectionLostError):
            await routes.find("Other")
        server.refuses = False
        del known["T"]
        await trio.sleep(FRESH_SECONDS)
        with pytest.raises(NoRouteError):
            await routes.find("T")


REFUSED: Mapping[str, tuple[bytes, type[ClientError], str]] = {
    "no JSON": (b"{", MalformedAnswerError, "^route of T: BODY: route: expected JSON"),
    "queues": (
        route(queues=QUEUE_NUMS_MAX + 1),
        MalformedAnswerError,
        "^route of T: expected at most 65536 queues, found 65537",
    ),
    "address": (
        route(address="nowhere"),
        MalformedAnswerError,
        "^route of T: address: expected host:port, found 'nowhere'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_routes_that_are_none(case: str, nursery: trio.Nursery) -> None:
    """What a name server says is checked before it is used."""
    body, kind, message = REFUSED[case]
    network = Network(nursery)
    name_server(network, {"T": body})
    async with routes_of(network) as routes:
        with pytest.raises(kind, match=message):
            await routes.find("T")


async def test_a_refusal_is_passed_on(nursery: trio.Nursery) -> None:
    """When no server says anything better, the refusal is the error."""
    network = Network(nursery)
    server: Server = network.server(NAMESRV, {105: always(1, remark="not ready")})
    async with routes_of(network) as routes:
        with pytest.raises(BrokerRefusedError, match="refused with code 1: not ready"):
            await routes.find("T")

    assert 1 == len(server.received)
