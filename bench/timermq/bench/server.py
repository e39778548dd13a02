"""A server under measurement: timermq, or a peer; started on a throw-away folder, then gone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from .dialect import Workload


class Server(Protocol):
    """The parts of a serving process that a question needs."""

    @property
    def process_id(self) -> int:
        """The process that serves now."""
        ...

    def workload(
        self,
        topic: str,
        count: int,
        *,
        body_size: int = 128,
        delay_ms: int = 0,
        connections: int = 4,
    ) -> Workload:
        """A load for this server, whose topic is there from now on."""
        ...


Start = Callable[[], AbstractContextManager[Server]]
"""Starts a server that is gone when the block ends."""


def free_port() -> int:
    """A port of the loopback interface that is free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
