"""Sockets as reactor, connections and server use them: the kernel's, or those of a simulation.

A socket has a number. Reactor and connections read from it and write to it by that, as the kernel
does: without waiting, as much as goes. The stream waits, closes and sends the rest.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from typing import Protocol

import structlog
import trio

log = structlog.get_logger("timermq.broker.sockets")

BEGINNING_MAX = 2
"""Connections whose first byte, or end, is told of at a poll: each wakes a task, which takes a few
tenths of a millisecond, and thousands may begin or end at once."""


class Sockets(Protocol):
    """Sockets by their streams and numbers, and one poll over those that are registered."""

    def peer_of(self, stream: trio.abc.Stream) -> tuple[str, int]:
        """Host and port of the other end.

        Raises:
            OSError: The connection is gone already.
        """
        ...

    def number_of(self, stream: trio.abc.Stream) -> int | None:
        """The number of a stream's socket; None: it receives by itself."""
        ...

    async def first_byte(self, stream: trio.abc.Stream) -> bytes | None:
        """Wait for the first byte, which stays where it is; while the sockets are polled.

        Returns:
            The byte, ``b""`` at the end; None at once of a stream that is no socket.

        Raises:
            OSError: The connection is lost.

        Cancellation: nothing has changed.
        """
        ...

    def register(self, number: int) -> None:
        """Have the poll tell of a socket, until ``unregister``."""
        ...

    def rest(self, number: int, *, rests: bool) -> None:
        """Tell of what arrives no more, or again; of a broken connection the poll always tells."""
        ...

    def unregister(self, number: int) -> None:
        """Tell of a registered socket no more; comes before it is closed."""
        ...

    async def wait(self) -> None:
        """Wait until the poll has something to tell.

        Cancellation: nothing has changed.
        """
        ...

    def poll(self, count_max: int) -> Sequence[tuple[int, int]]:
        """Numbers that may be read from now, each beside what the kernel says; may be mistaken."""
        ...

    def read(self, number: int, size_max: int, /) -> bytes:
        """Bytes that have arrived, at most so many; ``b""``: the peer sends nothing more.

        Raises:
            BlockingIOError: Nothing has arrived.
            OSError: The connection is lost.
        """
        ...

    def write(self, number: int, data: bytes, /) -> int:
        """Send as much as there is room for now; how many bytes those were.

        Raises:
            BlockingIOError: There is no room.
            OSError: The connection is lost.
        """
        ...

    def close(self) -> None:
        """Close the poll; the sockets stay."""
        ...


class KernelSockets:
    """The kernel's, with an epoll; where there is none, each stream receives by itself."""

    read = staticmethod(os.read)
    write = staticmethod(os.write)

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._first_bytes: dict[int, trio.Event] = {}
        """The sockets that wait for the first byte, by number; ``_beginning`` is their epoll, in
        the other one."""
        if hasattr(select, "epoll"):
            self._epoll = select.epoll()
            self._beginning = select.epoll()
            self._epoll.register(self._beginning.fileno(), select.EPOLLIN)
        else:
            log.info("no epoll here: connections receive one by one")

    def peer_of(self, stream: trio.abc.Stream) -> tuple[str, int]:
        """Host and port of the other end."""
        assert isinstance(stream, trio.SocketStream), f"{stream!r}: expected a socket"
        host, port = stream.socket.getpeername()[:2]
        return host, port

    def number_of(self, stream: trio.abc.Stream) -> int | None:
        """The file number of the socket; None where no epoll watches it."""
        if self._epoll is None or not isinstance(stream, trio.SocketStream):
            return None
        return stream.socket.fileno()

    async def first_byte(self, stream: trio.abc.Stream) -> bytes | None:
        """Wait for the first byte, which stays where it is."""
        if not isinstance(stream, trio.SocketStream):
            return None
        if self._epoll is not None:
            await self._arrival(stream.socket.fileno())
        return await stream.socket.recv(1, socket.MSG_PEEK)

    async def _arrival(self, number: int) -> None:
        """Wait until something, or the end, has arrived at a socket."""
        arrived = self._first_bytes[number] = trio.Event()
        self._beginning.register(number, select.EPOLLIN)
        try:
            await arrived.wait()
        finally:
            if self._first_bytes.pop(number, None) is not None:
                self._beginning.unregister(number)

    def register(self, number: int) -> None:
        """Have the poll tell of a socket."""
        assert self._epoll is not None
        self._epoll.register(number, select.EPOLLIN)

    def rest(self, number: int, *, rests: bool) -> None:
        """Tell of what arrives no more, or again."""
        assert self._epoll is not None
        self._epoll.modify(number, 0 if rests else select.EPOLLIN)

    def unregister(self, number: int) -> None:
        """Tell of a socket no more."""
        assert self._epoll is not None
        self._epoll.unregister(number)

    async def wait(self) -> None:
        """Wait for the epoll by trio's own."""
        if self._epoll is None:
            await trio.sleep_forever()
        else:
            await trio.lowlevel.wait_readable(self._epoll.fileno())

    def poll(self, count_max: int) -> Sequence[tuple[int, int]]:
        """Numbers that may be read from now."""
        assert self._epoll is not None
        if self._first_bytes:
            for number, _ in self._beginning.poll(0, BEGINNING_MAX):
                self._beginning.unregister(number)
                self._first_bytes.pop(number).set()
        return self._epoll.poll(0, count_max)

    def close(self) -> None:
        """Close the epoll; the sockets stay open."""
        if self._epoll is not None:
            self._beginning.close()
            self._epoll.close()
