"""The answers that a peer has not read: in order, counted, and with a limit. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from .pool import Pool

JOIN_SIZE_MAX = 131_072
"""Bytes of small answers joined for one write; above, allocating costs more than it saves."""
FREE_SIZE = 65_536
"""Bytes that a peer may leave unread though all others together leave no room."""
REST_DIVISOR = 16
"""A peer that leaves this part of the limit unread is given nothing more to read."""


class UnreadAnswers:
    """Frames that are queued or being written to one peer.

    Args:
        pool: Bytes that all peers together may leave unread.
        peer: What the share of it goes by.
        size_max: Bytes of one connection from which on nothing more is queued.
    """

    def __init__(self, pool: Pool, peer: str, size_max: int) -> None:
        self._pool = pool
        self._peer = peer
        self._size_max = size_max
        self._rest_size = size_max // REST_DIVISOR
        self._frames: list[bytes] = []
        self._share = 0
        """Bytes that count in the pool: those left after the last write."""
        self._calls: dict[Callable[[], None], None] = {}
        """Functions to call when there is room."""
        self.size = 0
        """Bytes queued or being written."""

    def __bool__(self) -> bool:
        """Whether any frame is queued."""
        return bool(self._frames)

    @property
    def has_room(self) -> bool:
        """Whether the peer has read enough, of its own answers and of all of its address.

        A connection that has nothing unread is given something, even if others of its address left
        much unread, as long as there is room at all.
        """
        if self._share:
            return self.size <= self._rest_size and self._pool.has_room(self._peer)
        if self._pool.is_full and self._pool.of(self._peer):
            return False
        return self.size <= self._rest_size

    def when_room(self, call: Callable[[], None]) -> None:
        """Have something called once, as soon as there is room."""
        self._calls[call] = None
        if not self.size:
            self._pool.when_left(self._peer, self.tell_room)

    def tell_room(self) -> None:
        """Something was read: if there is room now, call what waits for it."""
        if not self._calls:
            return
        if self.has_room:
            calls, self._calls = self._calls, {}
            for call in calls:
                call()
        elif not self.size:
            self._pool.when_left(self._peer, self.tell_room)

    def add(self, frame: bytes) -> bool:
        """Queue a frame; False if the peer leaves too much unread for one more."""
        if self.size >= self._size_max or (self._share > FREE_SIZE and self._pool.is_full):
            return False
        self._frames.append(frame)
        self.size += len(frame)
        return True

    def take(self) -> bytes:
        """The next frames to write, joined; a large one goes alone."""
        size = 0
        for count, frame in enumerate(self._frames):
            size += len(frame)
            if size > JOIN_SIZE_MAX:
                taken = max(count, 1)
                break
        else:
            taken = len(self._frames)
        first, self._frames = self._frames[:taken], self._frames[taken:]
        return first[0] if taken == 1 else b"".join(first)

    def written(self, size: int, rest: bytes = b"") -> None:
        """Note a write of so many bytes; the rest of the frames goes next."""
        self.size -= size
        if rest:
            self._frames.insert(0, rest)
        if self.size or self._share:
            self.count()

    def count(self) -> None:
        """Count the queued bytes in the pool, as they do not go at once."""
        more, self._share = self.size - self._share, self.size
        self._pool.add(self._peer, more)

    def drop(self) -> None:
        """Drop the frames of a connection that has ended, and its share of the pool."""
        self._frames.clear()
        self._calls.clear()
        self._pool.forget(self.tell_room)
        self.size = 0
        self.count()
