"""Message ids: where a message stands, and who it is.

Both are upper-case hexadecimal digits, 32 with IPv4 and 56 with IPv6 addresses. The *offset message
id* is the store host and the position; the *unique key* is made by the producer, or by the broker
for messages without.

Source: Java ``MessageDecoder.createMessageId``, ``MessageClientIDSetter``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from .message import HOST_SIZE_V4, HOST_SIZE_V6

_POSITION_SIZE = 8
_ID_SIZES = (2 * (HOST_SIZE_V4 + _POSITION_SIZE), 2 * (HOST_SIZE_V6 + _POSITION_SIZE))

COUNTER_MAX = 0xFFFF
"""Keys of one millisecond, less one."""


def offset_message_id(host: bytes, phy_offset: int) -> str:
    """The id of the record at ``phy_offset`` on ``host`` (packed)."""
    return (host + phy_offset.to_bytes(_POSITION_SIZE, "big", signed=True)).hex().upper()


def parse_offset_message_id(text: str) -> tuple[bytes, int]:
    """Host (packed) and position of an offset message id, in either case of letters.

    Raises:
        ValueError: Not 32 or 56 hexadecimal digits.
    """
    if len(text) not in _ID_SIZES or not text.isalnum():
        raise ValueError(f"message id: expected 32 or 56 hexadecimal digits, found {text[:64]!r}")
    data = bytes.fromhex(text)
    return data[:-_POSITION_SIZE], int.from_bytes(data[-_POSITION_SIZE:], "big", signed=True)


class UniqueIdGenerator:
    """Makes unique keys: address, process, instance, milliseconds of the month, counter.

    Time and counter together only ever grow: while the clock stands or steps back, and when a
    millisecond has used up its counter, keys borrow from the time to come.

    Args:
        host: Packed address and port; the port is not used.
        process_id: Its low 16 bits are.
        now_ms: The wall clock.
        instance: What tells two generators of one process id apart, low 32 bits.

    Source: Java ``MessageClientIDSetter``, which does not guard against a clock that steps back.
    """

    def __init__(
        self, host: bytes, process_id: int, now_ms: Callable[[], int], *, instance: int = 0
    ) -> None:
        process = (process_id & 0xFFFF).to_bytes(2, "big")
        self._prefix = host[:-4] + process + (instance & 0xFFFFFFFF).to_bytes(4, "big")
        self._now_ms = now_ms
        self._last_ms = 0
        self._counter = COUNTER_MAX
        self._month_ms = 0
        self._next_month_ms = 0

    def next(self) -> str:
        """A key that this generator has not made before."""
        now_ms = self._now_ms()
        if now_ms > self._last_ms:
            self._last_ms = now_ms
            self._counter = 0
        elif self._counter < COUNTER_MAX:
            self._counter += 1
        else:
            self._last_ms += 1
            self._counter = 0
        if self._last_ms >= self._next_month_ms:
            self._start_month()
        since_ms = self._last_ms - self._month_ms
        tail = since_ms.to_bytes(4, "big") + self._counter.to_bytes(2, "big")
        return (self._prefix + tail).hex().upper()

    def _start_month(self) -> None:
        """Count from the first instant of the month, local time, as Java does."""
        first = datetime.datetime.fromtimestamp(self._last_ms // 1000).replace(
            day=1, hour=0, minute=0, second=0
        )
        following = (first + datetime.timedelta(days=32)).replace(day=1)
        # Where clocks change in the night of the first, the instant may lie behind the moment.
        self._month_ms = min(int(first.timestamp()) * 1000, self._last_ms)
        self._next_month_ms = max(int(following.timestamp()) * 1000, self._last_ms + 1)
