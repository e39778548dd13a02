"""Connections of a client: one to each address, requests and answers multiplexed.

A request never touches the stream itself: it queues its frame, and the link's own task writes what
is queued, many frames at once. So a caller that gives up, by deadline or cancellation, cannot cut a
frame in two, which would spoil the connection for everybody; and it is always known whether a
request has left.

A link is made by the first request to its address and connects by itself. When it breaks, all its
requests fail at once, and the next request makes a new link. A link that follows failed ones waits
before it connects, twice as long each time.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Awaitable, Callable

import attrs
import trio

from timermq.remoting import (
    Command,
    FrameConnection,
    LocalProtocolError,
    RemoteProtocolError,
    encode_frame,
)
from timermq.remoting.causes import first_cause

from .access import Credentials, signed
from .access import OpenStream as OpenStream
from .errors import ConnectionLostError, NoAnswerError, RequestTimeoutError

RECEIVE_SIZE = 65_536
CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection."""
REQUEST_TIMEOUT = 5.0
"""Seconds that a request may take, connecting included, unless its caller says otherwise."""
RECONNECT_PAUSE_MIN = 0.1
RECONNECT_PAUSE_MAX = 1.6
"""Seconds before the next attempt to connect; with the attempt itself less than a request takes."""
JOIN_SIZE_MAX = 131_072
"""Bytes of small frames joined for one write; above, allocating costs more than it saves."""
OUTBOX_SIZE_MAX = 4 << 20
"""Bytes queued for one connection; above, further requests wait for room."""


@attrs.define(eq=False)
class _Request:
    """A request whose answer is awaited."""

    frame: bytes
    settled: trio.Event = attrs.Factory(trio.Event)
    is_sent: bool = False
    """A write that holds it has begun."""
    is_abandoned: bool = False
    """No caller waits for it any more."""
    answer: Command | None = None


class Link:
    """One connection, from before it is opened until it is lost.

    Args:
        address: ``host:port``.
        open_stream: Opens a TCP stream.
        on_request: Called with each request that the server makes.
        failures: Links to this address that could not connect, one after the other, before this.
        credentials: Sign its requests.
    """

    def __init__(
        self,
        address: str,
        open_stream: OpenStream,
        on_request: Callable[[Command], None],
        *,
        failures: int,
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._address = address
        self._open_stream = open_stream
        self._on_request = on_request
        self._frames = FrameConnection()
        self._opaques = itertools.count(1)
        self._waiting: dict[int, _Request] = {}
        self._outbox: deque[_Request] = deque()
        self._outbox_size = 0
        self._outbox_added = trio.Event()
        self._outbox_taken = trio.Event()
        self._scope = trio.CancelScope()
        self.failures = failures
        """Attempts to connect that failed so far; 0 once connected."""
        self.is_connected = False
        self.lost: str | None = None
        """Why the connection is gone; None while it works or is being opened."""

    async def run(self) -> None:
        """Connect and carry requests until the connection ends; its failures stay in here.

        Cancellation: all requests fail, the stream is closed.
        """
        try:
            stream = await self._connect()
        except (OSError, UnicodeError, trio.TooSlowError) as error:
            # A name of a host that IDNA refuses is a UnicodeError.
            self.failures += 1
            self._lose(f"cannot connect: {connect_reason(error)}")
            return
        finally:
            if not self.is_connected:
                self._lose("the client stops")
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._until_lost, self._write, stream)
                    nursery.start_soon(self._until_lost, self._read, stream)
        finally:
            self._lose("the client stops")
            await trio.aclose_forcefully(stream)

    async def call(self, command: Command, timeout: float) -> Command:
        """Send a request and wait for its answer.

        Raises:
            ConnectionLostError: No connection, or it broke.
            RequestTimeoutError: No answer in time.
            LocalProtocolError: The command cannot be carried.

        Cancellation: the request may be carried out; its answer is dropped.
        """
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        request = _Request(encode_frame(signed(command, self._credentials)))
        self._waiting[command.opaque] = request
        try:
            with trio.move_on_after(timeout):
                while self._outbox_size > OUTBOX_SIZE_MAX and self.lost is None:
                    await self._outbox_taken.wait()
                if self.lost is None:
                    self._queue(request)
                    await request.settled.wait()
        finally:
            del self._waiting[command.opaque]
            request.is_abandoned = True
        if request.answer is not None:
            return request.answer
        error: type[NoAnswerError] = RequestTimeoutError
        reason = f"no answer within {timeout} s"
        if self.lost is not None:
            error, reason = ConnectionLostError, self.lost
        text = f"{self._address}: {reason} (request {command.code})"
        raise error(text, may_have_arrived=request.is_sent)

    async def _connect(self) -> trio.abc.Stream:
        if self.failures:
            await trio.sleep(reconnect_pause(self.failures))
        with trio.fail_after(CONNECT_TIMEOUT):
            stream = await self._open_stream(*split_address(self._address))
        self.is_connected = True
        self.failures = 0
        return stream

    async def _until_lost(
        self, work: Callable[[trio.abc.Stream], Awaitable[None]], stream: trio.abc.Stream
    ) -> None:
        """Do one direction's work; its end is the end of both."""
        try:
            await work(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(f"connection lost: {error}")
        except RemoteProtocolError as error:
            self._lose(error.remark)
        self._scope.cancel()

    async def _read(self, stream: trio.abc.Stream) -> None:
        while data := await stream.receive_some(RECEIVE_SIZE):
            self._frames.receive_data(bytes(data))
            # Once more after the last frame: what follows it may be broken.
            while commands := self._frames.events():
                for command in commands:
                    self._dispatch(command)
        self._lose("closed by the server")

    async def _write(self, stream: trio.abc.Stream) -> None:
        while True:
            await self._outbox_added.wait()
            self._outbox_added = trio.Event()
            while data := self._take():
                await stream.send_all(data)

    def _queue(self, request: _Request) -> None:
        self._outbox.append(request)
        self._outbox_size += len(request.frame)
        self._outbox_added.set()

    def _take(self) -> bytes:
        """The next frames, joined; a large one goes alone, one without a caller not at all."""
        frames: list[bytes] = []
        size = 0
        while self._outbox and (not frames or size + len(self._outbox[0].frame) <= JOIN_SIZE_MAX):
            request = self._outbox.popleft()
            self._outbox_size -= len(request.frame)
            if not request.is_abandoned:
                request.is_sent = True
                frames.append(request.frame)
                size += len(request.frame)
        self._outbox_taken.set()
        self._outbox_taken = trio.Event()
        return b"".join(frames)

    def _dispatch(self, command: Command) -> None:
        if not command.is_response:
            self._on_request(command)
            return
        request = self._waiting.get(command.opaque)
        if request is not None:  # else its caller has given up
            request.answer = command
            request.settled.set()

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            self.is_connected = False
            self._outbox_taken.set()
            for request in self._waiting.values():
                request.settled.set()


class Links:
    """The connections of one client, by address.

    Args:
        nursery: Where their tasks live; once it is cancelled the client is closed.
        on_request: Called with the server's address and each request that a server makes.
        open_stream: Opens a TCP stream, or one over TLS.
        credentials: Sign all requests.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        on_request: Callable[[str, Command], None],
        open_stream: OpenStream = trio.open_tcp_stream,
        *,
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._nursery = nursery
        self._on_request = on_request
        self._open_stream = open_stream
        self._links: dict[str, Link] = {}

    async def call(
        self, address: str, command: Command, timeout: float = REQUEST_TIMEOUT
    ) -> Command:
        """Send a request to ``host:port`` and wait for its answer, whatever its code.

        Raises:
            ConnectionLostError: No connection, or it broke.
            RequestTimeoutError: No answer in time.
            LocalProtocolError: The address is none, or the command cannot be carried.

        Cancellation: the request may be carried out; its answer is dropped.
        """
        split_address(address)
        return await self._link(address).call(command, timeout)

    def addresses(self) -> list[str]:
        """Addresses with a working connection."""
        return [address for address, link in self._links.items() if link.is_connected]

    def _link(self, address: str) -> Link:
        if self._nursery.cancel_scope.cancel_called:
            raise ConnectionLostError(f"{address}: the client is closed", may_have_arrived=False)
        link = self._links.get(address)
        if link is None or link.lost is not None:
            failures = 0 if link is None else link.failures
            link = Link(
                address,
                self._open_stream,
                self._receiver(address),
                failures=failures,
                credentials=self._credentials,
            )
            self._links[address] = link
            self._nursery.start_soon(link.run, name=f"link {address}")
        return link

    def _receiver(self, address: str) -> Callable[[Command], None]:
        def receive(command: Command) -> None:
            self._on_request(address, command)

        return receive


def connect_reason(error: OSError | UnicodeError | trio.TooSlowError) -> str:
    """Why there is no connection: of several attempts, what the first one met."""
    if isinstance(error, trio.TooSlowError):
        return "no connection in time"
    cause = first_cause(error.__cause__ or error)
    reason = str(cause)
    if isinstance(cause, OSError) and cause.errno is not None:
        # That of a name that is not known is negative, and no number of the system's.
        reason = os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or reason
    return reason[:1].lower() + reason[1:]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host stands in brackets.

    Raises:
        LocalProtocolError: It is something else.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65_536):
        raise LocalProtocolError(f"address: expected host:port, found {address[:300]!r}")
    return host, int(port)


def reconnect_pause(failures: int) -> float:
    """Seconds before connecting again after so many failures in a row."""
    return min(RECONNECT_PAUSE_MIN * 2.0 ** min(failures - 1, 10), RECONNECT_PAUSE_MAX)
