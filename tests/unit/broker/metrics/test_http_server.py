"""Tests of the HTTP port: three paths, and peers that behave badly."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from broker_rig import BROKER, RunningBroker, running_broker
from timermq.broker.metrics.http_server import (
    BODY_SIZE_MAX,
    EVENT_SIZE_MAX,
    FIRST_REQUEST_TIMEOUT,
)


@attrs.frozen(eq=False)
class Client:
    """The operator's end of a connection."""

    stream: trio.abc.Stream

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        await self.stream.send_all(request)
        return await self.answer(has_body=not request.startswith(b"HEAD"))

    async def answer(self, *, has_body: bool = True) -> tuple[int, bytes]:
        """Read the next answer: its status and its body."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = bytes(await self.stream.receive_some())
            assert more, data
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while has_body and len(body) < size:
            body += bytes(await self.stream.receive_some())
        return int(head.split()[1]), body

    async def is_closed(self) -> bool:
        """Whether the server has closed the connection and sent nothing more."""
        try:
            return not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True


def connect(running: RunningBroker) -> Client:
    """A connection to the HTTP port, in memory."""
    ours, theirs = trio.testing.memory_stream_pair()
    running.nursery.start_soon(running.broker.http_server.serve, ours)
    return Client(theirs)


def get(path: str, method: str = "GET") -> bytes:
    """The bytes of a request without a body."""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@asynccontextmanager
async def serving() -> AsyncGenerator[RunningBroker]:
    """A broker that runs on the staged clock."""
    async with running_broker(options=attrs.evolve(BROKER, metrics_connections_max=4)) as running:
        yield running


async def test_one_connection_asks_again_and_again(autojump_clock: MockClock) -> None:
    """All paths, over a connection that stays open; a query is passed over."""
    async with serving() as running:
        client = connect(running)
        status, body = await client.ask(get("/metrics?x=1"))
        assert status == 200
        assert body.startswith(b"# HELP")
        assert await client.ask(get("/healthz")) == (200, b"ok\n")
        assert await client.ask(get("/readyz")) == (200, b"ready\n")
        assert await client.ask(get("/readyz", "HEAD")) == (200, b"")
        assert (await client.ask(get("/")))[0] == 404


async def test_not_ready_says_why(autojump_clock: MockClock) -> None:
    """A broker that refuses sends lives, and is not ready."""
    async with running_broker(options=attrs.evolve(BROKER, broker_permission=4)) as running:
        client = connect(running)
        status, body = await client.ask(get("/readyz"))
        assert (503, True) == (status, b"broker_permission 4" in body)
        assert (await client.ask(get("/healthz")))[0] == 200
        running.broker.request_stop()
        assert (await client.ask(get("/readyz"))) == (503, b"the broker stops\n")


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
async def test_nothing_can_be_changed(autojump_clock: MockClock, method: str) -> None:
    """Only reading is allowed, and the connection goes on."""
    async with serving() as running:
        client = connect(running)
        assert (await client.ask(get("/metrics", method)))[0] == 405
        assert (await client.ask(get("/healthz")))[0] == 200


@pytest.mark.parametrize(
    ("request_data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"x" * EVENT_SIZE_MAX, 431),
        (
            get("/", "POST")[:-2]
            + b"Content-Length: %d\r\n\r\n" % (BODY_SIZE_MAX + 1)
            + b"x" * (BODY_SIZE_MAX + 1),
            413,
        ),
    ],
    ids=["no HTTP", "no host", "long head", "long body"],
)
async def test_bad_requests_end_their_connection(
    autojump_clock: MockClock, request_data: bytes, status: int
) -> None:
    """They are told so; the next connection is served."""
    async with serving() as running:
        client = connect(running)
        assert (await client.ask(request_data))[0] == status
        assert await client.is_closed()
        assert (await connect(running).ask(get("/healthz")))[0] == 200


async def test_what_trickles_is_cut_off(autojump_clock: MockClock) -> None:
    """A peer that never finishes its request has its place for so long only."""
    async with serving() as running:
        client = connect(running)
        begun = trio.current_time()
        await client.stream.send_all(b"GET /met")
        assert await client.is_closed()
        assert trio.current_time() - begun == pytest.approx(FIRST_REQUEST_TIMEOUT)


async def test_one_more_connection_is_turned_away(autojump_clock: MockClock) -> None:
    """Connections that hold the places keep them; the next one is closed at once."""
    async with serving() as running:
        holders = [connect(running) for _ in range(2)]
        for holder in holders:
            assert (await holder.ask(get("/healthz")))[0] == 200
        assert await connect(running).is_closed()
        await holders[0].stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (await connect(running).ask(get("/healthz")))[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:5557", 200),
        ("[::1]:5557", 200),
        ("10.0.0.7", 200),
        ("localhost", 200),
        ("timermq:5557", 200),
        ("Broker.Example.com.", 200),
        ("evil.example.org", 421),
        ("127.0.0.1.evil.example.org:5557", 421),
        ("broker.example.com.evil.org", 421),
    ],
)
async def test_a_foreign_host_is_not_answered(
    autojump_clock: MockClock, host: str, status: int
) -> None:
    """A page whose name was made to lead here reads nothing; the connection goes on."""
    options = attrs.evolve(BROKER, metrics_hosts="broker.example.com;other.example.com")
    async with running_broker(options=options) as running:
        client = connect(running)
        asked = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()

        assert (await client.ask(asked))[0] == status
        assert (await client.ask(get("/healthz"))) == (200, b"ok\n")


async def test_any_host_is_answered_where_that_is_set(autojump_clock: MockClock) -> None:
    """Behind something that checks it."""
    async with running_broker(options=attrs.evolve(BROKER, metrics_hosts="*")) as running:
        asked = b"GET /healthz HTTP/1.1\r\nHost: a.example.org\r\n\r\n"

        assert (await connect(running).ask(asked))[0] == 200
