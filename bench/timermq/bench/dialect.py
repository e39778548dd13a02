"""One load, and the dialect in which a server is spoken to: prepared bytes out, bodies in.

The load programs are the same for every server; what differs stands behind :class:`Dialect`, in a
module for each: ``remoting``, ``beanstalkd``, ``redis_timer``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Protocol

import attrs

RECEIVE_SIZE = 1 << 16
CONNECT_SECONDS = 60.0


class Dialect(Protocol):
    """The requests of a load program to a server, and the answers."""

    @property
    def delay_step_ms(self) -> int:
        """Delays are multiples of this, milliseconds."""
        ...

    def connect(self, workload: Workload) -> socket.socket:
        """A blocking connection that is ready for ``puts``."""
        ...

    def puts(self, workload: Workload, first: int = 0, body_start: bytes = b"") -> Iterator[bytes]:
        """Requests that send ``count`` messages, numbered from ``first`` on.

        The body begins with ``body_start``.
        """
        ...

    def read_answers(self, link: socket.socket, buffer: bytes, count: int) -> bytes:
        """Read ``count`` answers to ``puts``; returns what came behind them.

        Raises:
            RuntimeError: One said that the message was not taken, or the connection ended.
        """
        ...

    def arriving(self, workload: Workload, group: str, timeout: float) -> Iterator[list[bytes]]:
        """The bodies of what arrives, together what came together, for ever.

        Raises:
            TimeoutError: Nothing came for ``timeout`` seconds.
            RuntimeError: The connection ended.
        """
        ...


@attrs.frozen(kw_only=True)
class Workload:
    """One load: what is sent where, and for when."""

    dialect: Dialect
    address: tuple[str, int]
    topic: str
    count: int
    body_size: int = 128
    deliver_ms: int = 0
    """One moment for all; 0: each ``delay_ms`` after it was sent."""
    delay_ms: int = 0
    connections: int = 4
    queue_count: int = 4
    skip: int = 0
    """Messages of each queue that were there before."""


def connect(address: tuple[str, int]) -> socket.socket:
    """A blocking connection that sends at once."""
    made = socket.create_connection(address, timeout=CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def receive(link: socket.socket) -> bytes:
    """The messages that have come.

    Raises:
        RuntimeError: The connection ended.
    """
    data = link.recv(RECEIVE_SIZE)
    if not data:
        raise RuntimeError("bench: the server closed the connection")
    return data
