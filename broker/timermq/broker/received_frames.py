"""Bytes that a connection has received: counted, and read as frames up to the first fault."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from timermq.remoting.connection import FrameConnection, Received
from timermq.remoting.errors import RemoteProtocolError

from .pool import Pool

FREE_SIZE = 65_536
"""Bytes of received frames that a connection may have without a share of what all may have."""

log = structlog.get_logger("timermq.broker.received_frames")


class ReceivedFrames:
    """The bytes that one peer has sent, and the requests in them. No I/O.

    Args:
        frames: Finds the requests.
        pool: Bytes that all peers together may leave here.
        peer: What the share of it goes by.
        remote: Host and port of the peer, for the log.
    """

    def __init__(self, frames: FrameConnection, pool: Pool, peer: str, remote: str) -> None:
        self._frames = frames
        self._pool = pool
        self._peer = peer
        self._remote = remote
        self._share = 0
        """Bytes that count in the pool."""
        self.failure: str | None = None
        """Why nothing can be read any more; whole frames before it have been given out."""

    @property
    def size(self) -> int:
        """Bytes that were received and not given out."""
        return self._frames.size

    @property
    def has_more(self) -> bool:
        """Whether whole requests were not given out, and can be."""
        return self.failure is None and self._frames.has_more

    def add(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._frames.receive_data(data)

    def requests(self, frame_size_max: int | None) -> Sequence[Received]:
        """The next requests; none and a ``failure`` where there is no frame.

        Args:
            frame_size_max: Bytes of a frame from now on; None: as before.
        """
        frames = self._frames
        if frame_size_max is not None:
            frames.frame_size_max = frame_size_max
        requests: Sequence[Received] = ()
        if self.failure is not None:
            return requests
        try:
            requests = frames.requests()
        except RemoteProtocolError:
            pass  # it stays as the failure
        except Exception:
            # The task that reads this connection reads all others, too: a mistake of ours in
            # reading ends the connection alone, and is met once.
            log.exception("connection failed", remote=self._remote)
            self.failure = "failed"
        if frames.failure is not None:
            self.failure = frames.failure.remark
            log.warning("broken frame", remote=self._remote, reason=self.failure)
        return requests

    def count(self) -> str | None:
        """Count the bytes left here beyond the free ones; the reason if there is no room."""
        size = self._frames.size
        now = size if size > FREE_SIZE else 0
        if not now and not self._share:
            return None
        refusal: str | None = None
        if now > self._share and not self._pool.has_room(self._peer):
            self._pool.refused += 1
            taken = self._pool.of(self._peer)
            refusal = f"{taken} bytes of frames from {self._peer}, no room for more"
        self._pool.add(self._peer, now - self._share)
        self._share = now
        return refusal

    def drop(self) -> None:
        """Give the share of a connection that has ended back to the pool."""
        self._pool.give_back(self._peer, self._share)
        self._share = 0
