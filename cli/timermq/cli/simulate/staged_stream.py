"""The network of a simulation: connections in memory that are slow, break, and lose answers.

Bytes of one connection keep their order; different connections overtake each other, because each
has a delay of its own. What is under way when a connection is cut is lost. Sending waits while the
peer leaves a window's worth unread, as on a socket.

`StagedStream` and `StagedListener` pass the same tests as trio's socket streams.
"""

from __future__ import annotations

import errno
import itertools
import math
import operator
from collections import deque
from random import Random

import trio

WINDOW_SIZE = 65_536
"""Bytes under way in one direction, beyond which sending waits."""
RECEIVE_SIZE = 65_536
"""Bytes of one receiving when the caller does not say."""
PORT_FIRST = 40_000


class _Pipe:
    """One direction of a connection: pieces of bytes, each with the time at which it arrives."""

    def __init__(self, network: StagedNetwork, delay: float) -> None:
        self._network = network
        self._delay = delay
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._changed = trio.Event()
        self._ended = False
        """The sender has closed; what is under way still arrives."""
        self.broken = False
        """Cut: nothing arrives any more."""

    @property
    def is_full(self) -> bool:
        return self._size >= WINDOW_SIZE

    def put(self, data: bytes) -> None:
        arrives = trio.current_time() + self._network.draw_delay(self._delay)
        if self._pieces:
            arrives = max(arrives, self._pieces[-1][0])
        for piece in self._network.cut(data):
            self._pieces.append((arrives, piece))
        self._size += len(data)
        self._tell()

    def end(self) -> None:
        self._ended = True
        self._tell()

    def cut(self) -> None:
        self.broken = True
        self._pieces.clear()
        self._size = 0
        self._tell()

    async def wait_change(self, until: float = math.inf) -> None:
        if until is math.inf:
            await self._changed.wait()
        else:
            with trio.move_on_at(until):
                await self._changed.wait()

    def take(self, size_max: int) -> bytes | float:
        """Bytes that have arrived, ``b""`` at the end, or the time of the next arrival."""
        if not self._pieces:
            return b"" if self._ended else math.inf
        arrives, data = self._pieces[0]
        if arrives > trio.current_time():
            return arrives
        if len(data) > size_max:
            self._pieces[0] = (arrives, data[size_max:])
            data = data[:size_max]
        else:
            self._pieces.popleft()
        self._size -= len(data)
        self._tell()
        return data

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class StagedStream(trio.abc.HalfCloseableStream):
    """One end of a connection.

    Attributes:
        peer: Host and port of the other end.
    """

    def __init__(self, outgoing: _Pipe, incoming: _Pipe, peer: tuple[str, int]) -> None:
        self.peer = peer
        self._outgoing = outgoing
        self._incoming = incoming
        self._is_closed = False
        self._has_sent_end = False
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
                if self._outgoing.is_full:
                    await self._outgoing.wait_change()
                    continue
                self._outgoing.put(rest[:WINDOW_SIZE])
                rest = rest[WINDOW_SIZE:]
        finally:
            self._is_sending = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the window has room."""
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            while True:
                self._check_sending()
                if not self._outgoing.is_full:
                    return
                await self._outgoing.wait_change()
        finally:
            self._is_sending = False

    async def send_eof(self) -> None:
        """Close this direction; the peer's answers still arrive."""
        self._begin_sending()
        try:
            await trio.lowlevel.checkpoint()
            if self._is_closed:
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
        if self._is_receiving:
            raise trio.BusyResourceError("another task receives")
        self._is_receiving = True
        try:
            await trio.lowlevel.checkpoint()
            while True:
                if self._is_closed:
                    raise trio.ClosedResourceError("closed")
                if self._incoming.broken:
                    raise trio.BrokenResourceError("connection reset by peer")
                found = self._incoming.take(max_bytes or RECEIVE_SIZE)
                if isinstance(found, bytes):
                    return found
                await self._incoming.wait_change(found)
        finally:
            self._is_receiving = False

    async def aclose(self) -> None:
        """Close both directions; what was sent still arrives."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """``aclose`` without the checkpoint."""
        if not self._is_closed:
            self._is_closed = True
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
        if self._is_closed or self._has_sent_end:
            raise trio.ClosedResourceError("closed")
        if self._outgoing.broken:
            raise trio.BrokenResourceError("connection reset by peer")


class StagedListener(trio.abc.Listener[StagedStream]):
    """Where a broker of the simulation accepts connections."""

    def __init__(self, network: StagedNetwork) -> None:
        self._network = network
        self._give, self._take = trio.open_memory_channel[StagedStream](math.inf)

    async def accept(self) -> StagedStream:
        """The next connection."""
        return await self._take.receive()

    async def aclose(self) -> None:
        """Accept no more; connections that nobody has accepted are cut."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """``aclose`` without the checkpoint."""
        self._network.forget(self)
        while True:
            try:
                self._take.receive_nowait().cut()
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
        self._take.close()

    def offer(self, stream: StagedStream) -> None:
        """Let a connection in."""
        self._give.send_nowait(stream)


class StagedNetwork:
    """All connections to one address.

    Args:
        draw: Decides delays and where pieces end.
        delay_max: Longest delay of a connection, seconds; 0: bytes arrive at once.
        pieces_max: Pieces that one sending may arrive in.
    """

    def __init__(self, draw: Random, *, delay_max: float = 0.0, pieces_max: int = 1) -> None:
        self._draw = draw
        self._delay_max = delay_max
        self._pieces_max = pieces_max
        self._ports = itertools.count(PORT_FIRST)
        self._listener: StagedListener | None = None
        self._listening = trio.Event()
        self._accepted: dict[StagedStream, None] = {}

    def listen(self) -> StagedListener:
        """Begin to accept; there is one listener at a time."""
        assert self._listener is None, "somebody listens already"
        self._listener = StagedListener(self)
        self._listening.set()
        return self._listener

    async def wait_listening(self) -> None:
        """Wait until somebody listens."""
        while self._listener is None:
            await self._listening.wait()

    async def connect(self) -> StagedStream:
        """Open a connection.

        Raises:
            OSError: Nobody listens.
        """
        await trio.lowlevel.checkpoint()
        if self._listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        delay = self._draw.uniform(0, self._delay_max) if self._delay_max else 0.0
        there, back = _Pipe(self, delay), _Pipe(self, delay)
        port = PORT_FIRST + (next(self._ports) - PORT_FIRST) % 20_000
        theirs = StagedStream(back, there, ("127.0.0.1", port))
        self._accepted[theirs] = None
        self._listener.offer(theirs)
        return StagedStream(there, back, ("127.0.0.1", 10_911))

    def cut_all(self) -> None:
        """The listening process is gone: every connection is cut, and nobody listens."""
        for stream in self._accepted:
            stream.cut()
        self._accepted.clear()
        if self._listener is not None:
            self._listener.close()

    def forget(self, listener: StagedListener) -> None:
        """A listener was closed. For the listener."""
        if self._listener is listener:
            self._listener = None
            self._listening = trio.Event()

    def draw_delay(self, delay: float) -> float:
        """How long a piece takes on a connection of this delay. For the connections."""
        return self._draw.uniform(delay / 2, delay) if delay else 0.0

    def cut(self, data: bytes) -> list[bytes]:
        """The pieces that bytes arrive in. For the connections."""
        if self._pieces_max <= 1 or len(data) < 2 or self._draw.random() < 0.8:
            return [data]
        count = self._draw.randint(1, min(self._pieces_max, len(data) - 1))
        ends = sorted(self._draw.sample(range(1, len(data)), count))
        return [data[start:end] for start, end in itertools.pairwise([0, *ends, len(data)])]
