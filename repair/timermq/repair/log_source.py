"""The ``LogSource`` seam: another copy of a store's commit log, at the same positions.

A backup is one, and so is a replica. What comes from it is believed only where it fits: a source
may be damaged too, end earlier, or have another log.
"""

from __future__ import annotations

from typing import Protocol

from timermq.timerstore.errors import StoreError
from timermq.timerstore.log_holes import look_at
from timermq.timerstore.record_layout import BLANK_SIZE


class SourceError(StoreError):
    """The source is of a store with other segments, or changes while it is read.

    Nothing is lost: the repair can be run again, with this source or another one.
    """


class LogSource(Protocol):
    """Bytes of a commit log by their positions."""

    @property
    def place(self) -> str:
        """The source as an operator names it, for messages."""
        ...

    @property
    def segment_size(self) -> int:
        """Bytes of one segment of the log."""
        ...

    @property
    def start(self) -> int:
        """Position of the first byte that it has."""
        ...

    @property
    def end(self) -> int:
        """Position behind the last one."""
        ...

    async def read(self, first: int, size: int) -> bytes:
        """Bytes from a position on: at least one and at most ``size``, or none where it has none.

        Raises:
            StoreError: It is damaged there, or cannot be read.
        """
        ...


async def bytes_of(source: LogSource, first: int, end: int) -> bytes | None:
    """Bytes [first, end) of a source, a few; None when it has not all of them.

    Raises:
        StoreError: As ``LogSource.read``.
    """
    found = b""
    while len(found) < end - first:
        data = await source.read(first + len(found), end - first - len(found))
        if not data:
            return None
        found += data
    return found


class RecordRun:
    """Bytes of the log that come in parts: whole records from their first byte to their last.

    Args:
        position: Of the first byte.
        end: Position behind the last one, in the same segment.
        segment_size: Bytes of a segment; a blank may stand at its end.
    """

    def __init__(self, position: int, end: int, segment_size: int) -> None:
        self._at = position
        self._end = end
        self._ends_segment = end % segment_size == 0
        self._rest = b""

    @property
    def is_whole(self) -> bool:
        """Whether the last byte of a record was the last of all."""
        return self._at == self._end

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; False when they are no records, or too many."""
        rest, at = self._rest + data, 0
        is_all = self._at + len(rest) == self._end
        if self._at + len(rest) > self._end:
            return False
        while at < len(rest):
            left = len(rest) - at
            size = int.from_bytes(rest[at : at + 4], signed=True) if left >= BLANK_SIZE else 0
            if not is_all and (left < BLANK_SIZE or size + BLANK_SIZE > left):
                # What stands behind a record is looked at too.
                if size > self._end - self._at - at:
                    return False
                break
            # Positions count from the first byte, as if a segment began with it.
            reason, found = look_at(rest, at, len(rest), self._at, is_whole=self._ends_segment)
            if reason:
                return False
            at += found or left
        self._at, self._rest = self._at + at, rest[at:]
        return True
