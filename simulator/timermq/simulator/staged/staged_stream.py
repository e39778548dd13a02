"""The streams of a simulation: connections in memory that are slow, and break.

Sending waits while the peer leaves a window's worth unread, as on a socket. What is under way when
a connection is cut is lost. `StagedStream` passes the same tests as trio's socket streams; its
`read` and `write` do what the kernel's calls do, for `StagedSockets`.
"""

from __future__ import annotations

import errno
import math
import operator
from collections import deque
from collections.abc import Callable

import attrs
import trio

RECEIVE_SIZE = 65_536
"""Bytes of one receiving when the caller does not say."""


@attrs.frozen(kw_only=True)
class Wire:
    """How bytes travel on one connection."""

    draw_delay: Callable[[], float]
    """Seconds that a piece takes."""
    cut: Callable[[bytes], list[bytes]]
    """The pieces that bytes arrive in."""
    window_size: int
    """Bytes under way in one direction, beyond which sending waits."""


class StagedPipe:
    """One direction of a connection: pieces of bytes, each with the time at which it arrives.

    Args:
        wire: How they travel.
        on_change: Called when anything has changed.
    """

    def __init__(self, wire: Wire, on_change: Callable[[], None]) -> None:
        self._wire = wire
        self._on_change = on_change
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._changed = trio.Event()
        self._ended = False
        """The sender has closed; what is under way still arrives."""
        self.broken = False
        """Cut: nothing arrives any more."""

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        return self._wire.window_size - self._size

    def put(self, data: bytes) -> None:
        """Put bytes under way, in pieces; they arrive in order."""
        arrives = trio.current_time() + self._wire.draw_delay()
        if self._pieces:
            arrives = max(arrives, self._pieces[-1][0])
        for piece in self._wire.cut(data):
            self._pieces.append((arrives, piece))
        self._size += len(data)
        self._tell()

    def end(self) -> None:
        """Close the sender's side; what is under way still arrives."""
        self._ended = True
        self._tell()

    def cut(self) -> None:
        """Lose what is under way, and let nothing in."""
        self.broken = True
        self._pieces.clear()
        self._size = 0
        self._tell()

    async def wait_change(self, until: float = math.inf) -> None:
        """Wait until anything changes, or for the time."""
        if until is math.inf:
            await self._changed.wait()
        else:
            with trio.move_on_at(until):
                await self._changed.wait()

    @property
    def tells_at(self) -> float:
        """When it has bytes, its end or its break to tell of; never, while nothing changes: inf."""
        if self._pieces:
            return self._pieces[0][0]
        return 0.0 if self._ended or self.broken else math.inf

    def peek(self) -> bytes | float:
        """A first piece that has arrived, ``b""`` at the end, or the time of the next arrival."""
        if not self._pieces:
            return b"" if self._ended else math.inf
        arrives, data = self._pieces[0]
        return arrives if arrives > trio.current_time() else data

    def take(self, size_max: int) -> bytes | float:
        """The same, at most so many bytes, and taken out."""
        data = self.peek()
        if isinstance(data, bytes) and data:
            arrives, _ = self._pieces.popleft()
            if len(data) > size_max:
                self._pieces.appendleft((arrives, data[size_max:]))
                data = data[:size_max]
            self._size -= len(data)
            self._tell()
        return data

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self._on_change()


class StagedStream(trio.abc.HalfCloseableStream):
    """One end of a connection.

    Attributes:
        peer: Host and port of the other end.
        is_closed: On this side.
    """

    def __init__(self, outgoing: StagedPipe, incoming: StagedPipe, peer: tuple[str, int]) -> None:
        self.peer = peer
        self._outgoing = outgoing
        self._incoming = incoming
        self.is_closed = False
        self._has_sent_end = False
        self._has_told_break = False
        self._is_sending = False
        self._is_receiving = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; waits while the peer leaves a window unread.

        Cancellation: a part of it has left.
        """
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            rest = bytes(data)
            while True:
                self._check_sending()
                if not rest:
                    return
                rest = rest[self._put(rest) :]
                if rest:
                    await self._outgoing.wait_change()
        finally:
            self._is_sending = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the window has room."""
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            while True:
                self._check_sending()
                if self._outgoing.room > 0:
                    return
                await self._outgoing.wait_change()
        finally:
            self._is_sending = False

    async def send_eof(self) -> None:
        """Close this direction; the peer's answers still arrive."""
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            if self.is_closed:
                raise trio.ClosedResourceError("closed")
            self._has_sent_end = True
            self._outgoing.end()
        finally:
            self._is_sending = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Bytes as they arrive; ``b""`` at the end.

        Cancellation: nothing is lost.
        """
        if max_bytes is not None and operator.index(max_bytes) < 1:
            raise ValueError(f"max_bytes: expected 1 or more, found {max_bytes}")
        return await self._receive(lambda: self._incoming.take(max_bytes or RECEIVE_SIZE))

    async def first_byte(self) -> bytes:
        """Wait for the first byte, which stays where it is; ``b""`` at the end.

        Raises:
            ConnectionResetError: The connection is broken.

        Cancellation: nothing has changed.
        """
        try:
            data = await self._receive(self._incoming.peek)
        except trio.BrokenResourceError:
            raise self._broken() from None
        return data[:1]

    async def _receive(self, look: Callable[[], bytes | float]) -> bytes:
        if self._is_receiving:
            raise trio.BusyResourceError("another task receives")
        self._is_receiving = True
        try:
            await trio.lowlevel.checkpoint()
            while True:
                if self.is_closed:
                    raise trio.ClosedResourceError("closed")
                if self._incoming.broken:
                    raise trio.BrokenResourceError("connection reset by peer")
                found = look()
                if isinstance(found, bytes):
                    return found
                await self._incoming.wait_change(found)
        finally:
            self._is_receiving = False

    @property
    def tells_at(self) -> float:
        """When ``read`` has something to say; inf: not before anything changes."""
        return self._incoming.tells_at

    @property
    def is_broken(self) -> bool:
        """Whether nothing comes and goes any more."""
        return self._incoming.broken

    def read(self, size_max: int) -> bytes:
        """The arrived bytes, at most so many; as ``os.read``.

        A break is told once; behind it comes the end.
        """
        self._check_number()
        if self.is_broken:
            if self._has_told_break:
                return b""
            raise self._broken()
        parts: list[bytes] = []
        while size_max and isinstance(found := self._incoming.take(size_max), bytes):
            if not found:
                return b"".join(parts)
            parts.append(found)
            size_max -= len(found)
        if not parts:
            raise BlockingIOError(errno.EAGAIN, "nothing has arrived")
        return b"".join(parts)

    def write(self, data: bytes) -> int:
        """Send as much as there is room for; as ``os.write``."""
        self._check_number()
        if self._has_sent_end or self._outgoing.broken:
            if self._has_sent_end or self._has_told_break:
                raise BrokenPipeError(errno.EPIPE, "broken pipe")
            raise self._broken()
        size = self._put(data)
        if not size and data:
            raise BlockingIOError(errno.EAGAIN, "no room")
        return size

    def _put(self, data: bytes) -> int:
        sent = data[: max(self._outgoing.room, 0)]
        if sent:
            self._outgoing.put(sent)
        return len(sent)

    def _broken(self) -> ConnectionResetError:
        """The error that tells of a break, once."""
        self._has_told_break = True
        return ConnectionResetError(errno.ECONNRESET, "connection reset by peer")

    def _check_number(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, "bad file descriptor")

    async def aclose(self) -> None:
        """Close both directions; what was sent still arrives."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close as ``aclose`` does, without its checkpoint."""
        if not self.is_closed:
            self.is_closed = True
            self._outgoing.end()
            self._incoming.cut()

    def cut(self) -> None:
        """Break the connection for both ends; what is under way is lost."""
        self._outgoing.cut()
        self._incoming.cut()

    def _begin_sending(self) -> None:
        if self._is_sending:
            raise trio.BusyResourceError("another task sends")
        self._is_sending = True

    def _check_sending(self) -> None:
        if self.is_closed or self._has_sent_end:
            raise trio.ClosedResourceError("closed")
        if self._outgoing.broken:
            raise trio.BrokenResourceError("connection reset by peer")
