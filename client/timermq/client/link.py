"""Connections of a client: one to each address, requests and answers multiplexed.

A connection is opened by the first request to its address. When it breaks, all requests under way
fail at once, and the next request opens a new one. Requests that the broker makes (code 40) go to a
callback.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import attrs
import trio

from timermq.remoting import Command, FrameConnection, LocalProtocolError, RemoteProtocolError

from .errors import ConnectionLostError, RequestTimeoutError

RECEIVE_SIZE = 65_536
CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection."""
REQUEST_TIMEOUT = 5.0
"""Seconds that a request may take unless its caller says otherwise."""

OpenStream = Callable[[str, int], Awaitable[trio.abc.Stream]]


@attrs.define(eq=False)
class _Waiting:
    """A request whose answer is awaited."""

    answered: trio.Event = attrs.Factory(trio.Event)
    answer: Command | None = None


class Link:
    """One connection."""

    def __init__(self, stream: trio.abc.Stream, on_request: Callable[[Command], None]) -> None:
        self._stream = stream
        self._frames = FrameConnection()
        self._on_request = on_request
        self._waiting: dict[int, _Waiting] = {}
        self._opaques = itertools.count(1)
        self._send_lock = trio.Lock()
        self.lost: str | None = None
        """Why the connection is gone; None while it works."""

    async def receive(self) -> None:
        """Hand answers to those who wait, until the connection ends; never raises."""
        try:
            while data := await self._stream.receive_some(RECEIVE_SIZE):
                self._frames.receive_data(bytes(data))
                for command in self._frames.events():
                    self._dispatch(command)
            self._fail("closed by the broker")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._fail(str(error) or "connection lost")
        except RemoteProtocolError as error:
            self._fail(error.remark)
        finally:
            self._fail("client stops")
            await trio.aclose_forcefully(self._stream)

    async def call(self, command: Command, timeout: float) -> Command:
        """Send a request and wait for its answer.

        Cancellation: the request may be carried out; its answer is dropped.
        """
        waiting = _Waiting()
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        self._waiting[command.opaque] = waiting
        try:
            with trio.move_on_after(timeout):
                await self.send(command)
                await waiting.answered.wait()
        finally:
            self._waiting.pop(command.opaque, None)
        if waiting.answer is not None:
            return waiting.answer
        if self.lost is not None:
            raise ConnectionLostError(f"request {command.code}: {self.lost}")
        raise RequestTimeoutError(f"request {command.code}: no answer within {timeout} s")

    async def send(self, command: Command) -> None:
        """Send a command without waiting for an answer."""
        data = self._frames.encode(command)
        try:
            async with self._send_lock:
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._fail(str(error) or "connection lost")
            raise ConnectionLostError(f"request {command.code}: {self.lost}") from error

    def _dispatch(self, command: Command) -> None:
        if not command.is_response:
            self._on_request(command)
            return
        waiting = self._waiting.get(command.opaque)
        if waiting is not None:
            waiting.answer = command
            waiting.answered.set()

    def _fail(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            for waiting in self._waiting.values():
                waiting.answered.set()


class Links:
    """The connections of one client, by address.

    Args:
        nursery: Where their receiving tasks live.
        on_request: Called with the broker's address and each request that a broker makes.
        open_stream: Opens a TCP stream.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        on_request: Callable[[str, Command], None],
        open_stream: OpenStream = trio.open_tcp_stream,
    ) -> None:
        self._nursery = nursery
        self._on_request = on_request
        self._open_stream = open_stream
        self._links: dict[str, Link] = {}
        self._opening: dict[str, trio.Lock] = {}

    async def call(
        self, address: str, command: Command, timeout: float = REQUEST_TIMEOUT
    ) -> Command:
        """Send a request to ``host:port`` and wait for its answer.

        Raises:
            ConnectionLostError: No connection, or it broke.
            RequestTimeoutError: No answer in time.
        """
        return await (await self._link(address)).call(command, timeout)

    def addresses(self) -> list[str]:
        """Addresses with a working connection."""
        return [address for address, link in self._links.items() if link.lost is None]

    async def _link(self, address: str) -> Link:
        link = self._links.get(address)
        if link is not None and link.lost is None:
            return link
        async with self._opening.setdefault(address, trio.Lock()):
            link = self._links.get(address)
            if link is None or link.lost is not None:
                link = Link(await self._connect(address), self._receiver(address))
                self._links[address] = link
                self._nursery.start_soon(link.receive, name=f"link {address}")
        return link

    async def _connect(self, address: str) -> trio.abc.Stream:
        host, mark, port = address.rpartition(":")
        if not mark or not port.isdecimal():
            raise LocalProtocolError(f"address: expected host:port, found {address!r}")
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                return await self._open_stream(host, int(port))
        except (OSError, trio.TooSlowError) as error:
            raise ConnectionLostError(f"{address}: cannot connect: {error}") from error

    def _receiver(self, address: str) -> Callable[[Command], None]:
        def receive(command: Command) -> None:
            self._on_request(address, command)

        return receive
