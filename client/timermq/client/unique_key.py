"""Message ids made by the producer: what users see and look messages up by (UNIQ_KEY).

RocketMQ's form of 32 hexadecimal digits. Where Java puts its address, class loader and uptime there
are randomness, process, time and count, so two producers on one host never meet.

Source: Java ``MessageClientIDSetter``.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable


class UniqueKeys:
    """The ids of one producer.

    Args:
        clock_ms: The wall clock.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._prefix = secrets.token_bytes(4) + (os.getpid() & 0xFFFF).to_bytes(2, "big")
        self._clock_ms = clock_ms
        self._count = itertools.count()

    def next(self) -> str:
        """An id that no other message has."""
        moment = (self._clock_ms() & 0xFFFF_FFFF_FFFF).to_bytes(6, "big")
        count = (next(self._count) & 0xFFFF_FFFF).to_bytes(4, "big")
        return (self._prefix + moment + count).hex().upper()
