"""Questions over HTTP to a server that does what it should not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from timermq.broker.replication.json_posts import ANSWER_SIZE_MAX, JsonPosts, Posted, PostError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + b'{"n": 1}'
HOST = "127.0.0.1"


@attrs.define(eq=False)
class Server:
    """A server on a real socket that says what it is told, one entry a connection."""

    connections: list[Sequence[bytes]]
    """For each connection the answers in order; it is closed behind the last."""
    port: int = 0
    asked: list[bytes] = attrs.field(factory=list[bytes])
    has_been_asked: trio.Event = attrs.field(factory=trio.Event)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer each request of a connection."""
        async with stream:
            for answer in self.connections.pop(0):
                self.asked.append(bytes(await stream.receive_some(65_536)))
                self.has_been_asked.set()
                await stream.send_all(answer)


@asynccontextmanager
async def posts(*connections: Sequence[bytes]) -> AsyncGenerator[tuple[JsonPosts, Server]]:
    """A client of such a server."""
    server = Server(list(connections))
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=HOST)
        server.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        client = JsonPosts(HOST, server.port)
        try:
            yield client, server
        finally:
            await client.aclose()
            nursery.cancel_scope.cancel()


async def test_a_connection_serves_many_questions() -> None:
    """It stays open; the token goes along when there is one."""
    async with posts([OK, OK]) as (client, server):
        assert await client.post("/v3/a", {"key": 1}) == Posted(200, {"n": 1})
        assert await client.post("/v3/b", {}, "token.1") == Posted(200, {"n": 1})

        assert server.asked[0].startswith(b"POST /v3/a HTTP/1.1\r\n")
        assert server.asked[0].endswith(b'{"key": 1}')
        assert b"authorization" not in server.asked[0].lower()
        assert b"authorization: token.1\r\n" in server.asked[1].lower()


async def test_a_connection_that_was_closed_is_made_again() -> None:
    """A server closes what rests."""
    async with posts([OK], [OK]) as (client, server):
        await client.post("/v3/a", {})
        assert await client.post("/v3/a", {}) == Posted(200, {"n": 1})
        assert server.connections == []


async def test_another_status_is_an_answer() -> None:
    """What it means is for the one who asked."""
    refused = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"
    async with posts([refused]) as (client, _):
        assert await client.post("/v3/a", {}) == Posted(401, {})


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b" " * (ANSWER_SIZE_MAX + 1),
        b"",
    ],
)
async def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    """It names the server, and the next question begins with a new connection."""
    async with posts([answer], [OK]) as (client, server):
        with pytest.raises(PostError, match=f"{HOST}:{server.port}"):
            await client.post("/v3/a", {})
        assert await client.post("/v3/a", {}) == Posted(200, {"n": 1})


async def test_a_server_that_is_away_is_an_error() -> None:
    """The address was free a moment ago."""
    async with posts() as (client, _):
        pass
    with pytest.raises(PostError, match=client.place):
        await client.post("/v3/a", {})


async def test_a_question_that_was_given_up_leaves_no_answer_behind() -> None:
    """The next one has a connection of its own, and not the late answer."""
    late = OK.replace(b'"n": 1', b'"n": 2')
    async with posts([b"HTTP/1.1 200 OK\r\n", late], [OK]) as (client, server):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.post, "/v3/a", None)
                await server.has_been_asked.wait()
                scope.cancel()
        assert await client.post("/v3/a", {}) == Posted(200, {"n": 1})
