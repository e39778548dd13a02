"""Looking on: snapshots of one broker, over a connection of their own.

The broker pushes; the reader gets the newest snapshot that has come, and those that it was too
slow for are passed over. A watch that has ended stays ended: to go on, open another.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from timermq.remoting import (
    Coding,
    Command,
    FrameConnection,
    RequestCode,
    Snapshot,
    WatchView,
    encode_frame,
)

from .access import Credentials, signed
from .errors import ConnectionLostError, check_answer, reading_answer
from .link import CONNECT_TIMEOUT, RECEIVE_SIZE, OpenStream, connect_reason, split_address

SILENCE_MAX = 15.0
"""Seconds beyond the interval without a snapshot, until the connection counts as lost."""


class Watch:
    """One connection that snapshots come over; made by ``open_watch``."""

    def __init__(
        self, address: str, stream: trio.abc.Stream, credentials: Credentials | None = None
    ) -> None:
        self._credentials = credentials
        self._address = address
        self._stream = stream
        self._frames = FrameConnection()
        self._sending = trio.Lock()
        self._opaque = 0
        self._silence: float | None = None
        """Seconds until the connection counts as lost; None while nothing is to come."""

    async def change(self, view: WatchView) -> None:
        """Ask for another view, or for snapshots again after ``stop``.

        Raises:
            ConnectionLostError: The connection broke.

        Cancellation: the watch can only be closed.
        """
        self._silence = view.interval_ms / 1000 + SILENCE_MAX
        await self._send(RequestCode.WATCH, view.encode())

    async def stop(self) -> None:
        """Ask for no more snapshots; a few may still be on their way.

        Raises:
            ConnectionLostError: The connection broke.

        Cancellation: the watch can only be closed.
        """
        self._silence = None
        await self._send(RequestCode.UNWATCH)

    async def receive(self) -> Snapshot:
        """The newest snapshot, once there is one that was not given out yet.

        Raises:
            ConnectionLostError: The connection broke, or nothing came for too long.
            BrokerRefusedError: The broker does not want to be looked at, or not in this way.
            MalformedAnswerError: What came is no snapshot.

        Cancellation: nothing is lost but what the next snapshot shows as well.
        """
        while True:
            data = await self._receive_some()
            with reading_answer(f"{self._address}: watch"):
                self._frames.receive_data(data)
                newest: Command | None = None
                while commands := self._frames.events():
                    for command in commands:
                        if command.is_response:
                            check_answer(command)
                        elif command.code == RequestCode.WATCH:
                            newest = command
                if newest is not None:
                    return Snapshot.decode(newest.body)

    async def _receive_some(self) -> bytes:
        """The next bytes; looks at the time now and then, for what is awaited may change."""
        waited_from = trio.current_time()
        while True:
            with trio.move_on_after(1.0):
                try:
                    data = bytes(await self._stream.receive_some(RECEIVE_SIZE))
                except trio.BrokenResourceError as error:
                    raise self._lost(f"connection lost: {error}") from error
                if not data:
                    raise self._lost("closed by the server")
                return data
            if self._silence is None:
                waited_from = trio.current_time()
            elif trio.current_time() - waited_from > self._silence:
                raise self._lost(f"no snapshot within {self._silence} s")

    async def _send(self, code: RequestCode, body: bytes = b"") -> None:
        self._opaque += 1
        command = Command(code, opaque=self._opaque, coding=Coding.CBOR, body=body)
        async with self._sending:
            try:
                await self._stream.send_all(encode_frame(signed(command, self._credentials)))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise self._lost(f"connection lost: {error}") from error

    def _lost(self, reason: str) -> ConnectionLostError:
        return ConnectionLostError(f"{self._address}: {reason}", may_have_arrived=True)


@asynccontextmanager
async def open_watch(
    address: str,
    view: WatchView,
    *,
    credentials: Credentials | None = None,
    open_stream: OpenStream = trio.open_tcp_stream,
) -> AsyncGenerator[Watch]:
    """Watch a broker as long as the block runs.

    Args:
        address: ``host:port`` of the broker.
        view: What is to be shown.
        credentials: The account that signs the requests.
        open_stream: Opens a TCP stream, or one over TLS.

    Raises:
        ConnectionLostError: It cannot be reached.
        LocalProtocolError: The address is none.
    """
    host, port = split_address(address)
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            stream = await open_stream(host, port)
    except (OSError, UnicodeError, trio.TooSlowError) as error:
        text = f"{address}: cannot connect: {connect_reason(error)}"
        raise ConnectionLostError(text, may_have_arrived=False) from error
    try:
        watch = Watch(address, stream, credentials)
        await watch.change(view)
        yield watch
    finally:
        await trio.aclose_forcefully(stream)
