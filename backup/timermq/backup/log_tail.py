"""The commit log of a store that a broker may be writing, read in pieces of whole records.

Nothing is written, and no lock is taken. A record is whole if its lengths, its position and its
checksum fit. The first that is not is the end of the log for now, because a broker may be writing
it. It is damage only if a second look finds the same bytes there, and good records or another
segment behind them. Damage is shipped as it is, for `store repair` to deal with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import attrs

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.log_holes import is_zero, look_at
from timermq.timerstore.log_record import STORE_MS_END, store_ms_of
from timermq.timerstore.mapped_file_queue import NAME_DIGITS
from timermq.timerstore.record_places import LogPart, RecordPlaces

PIECE_SIZE = 8 << 20
"""Bytes after which a piece ends with the record. A piece is held in memory, and is one object."""


@attrs.frozen(kw_only=True)
class LogPiece:
    """Records that follow each other in one segment."""

    start: int
    data: bytes
    last_store_ms: int
    """Store time of the newest record, 0 without any."""
    damaged: int = 0
    """Bytes of it that are no record."""

    @property
    def end(self) -> int:
        """Position behind its last byte."""
        return self.start + len(self.data)


@attrs.define(eq=False)
class LogTail:
    """The log of one store.

    Args:
        disk: The disk of the store.
        root: Its directory.
        piece_size: Bytes after which a piece ends; for tests.
    """

    disk: Disk
    root: str
    piece_size: int = PIECE_SIZE
    _doubt: tuple[int, bytes] | None = None
    """Position at which the last look found no record, and the bytes there."""

    @property
    def has_doubt(self) -> bool:
        """Whether the last look ended at bytes that a second look may take for damage."""
        return self._doubt is not None

    def oldest(self) -> tuple[int, int] | None:
        """Start and length of the oldest segment; None without any."""
        return next(self.segments(), None)

    def segments(self) -> Iterator[tuple[int, int]]:
        """Start and length of each segment file that has a length, ascending."""
        directory = f"{self.root}/commitlog"
        for name in self.disk.list_dir(directory):
            if len(name) == NAME_DIGITS and name.isascii() and name.isdigit():
                try:
                    with closing(self.disk.open(f"{directory}/{name}", read_only=True)) as file:
                        size = file.size()
                except FileNotFoundError:
                    continue  # cleaned meanwhile
                if size:
                    yield int(name), size

    def piece_at(self, position: int, segment_size: int, *, is_stopped: bool) -> LogPiece | None:
        """The records from a position on; None when there is none yet.

        Args:
            position: Where a record ends, or a segment begins.
            segment_size: Bytes of one segment.
            is_stopped: No broker serves the store: what is no record now will not become one.

        Raises:
            OSError: The disk failed.
        """
        start = position - position % segment_size
        file = self._open(start)
        if file is None:
            return None
        with closing(file):
            # A file without data is not mapped: its broker may still change its length.
            if file.size() != segment_size or not self._may_go_on(file, position - start, start):
                self._doubt = None
                return None
            return self._records(file, position - start, start, is_stopped)

    def _records(self, file: File, first: int, start: int, is_stopped: bool) -> LogPiece | None:
        view = file.map()
        file.will_need([(first, self.piece_size)])
        size, at, newest, damaged = len(view), first, -1, 0
        while at < size and at - first < self.piece_size:
            reason, length = look_at(view, at, size, start, is_whole=True)
            if not reason and length:
                newest = at
                at += length
                continue
            if not reason:
                at = size  # a blank
                break
            if at > first:
                break
            end = self._behind_damage(LogPart(view, size, start, True), at, is_stopped)
            if end is None:
                return None
            self._doubt = None
            damaged += end - at
            at = end
        data = view[first:at]
        store_ms = 0 if newest < 0 else store_ms_of(view[newest : newest + STORE_MS_END])
        return LogPiece(start=start + first, data=data, last_store_ms=store_ms, damaged=damaged)

    def _behind_damage(self, part: LogPart, at: int, is_stopped: bool) -> int | None:
        """Where the log goes on behind bytes that are no record; None if it may end there."""
        seen = (part.start + at, part.view[at : at + 512])
        if not is_stopped and self._doubt != seen:
            self._doubt = seen
            return None
        has_next = self._has_data(part.start + part.limit)
        if is_zero(part.view, at, part.limit):
            return part.limit if has_next else None
        behind = RecordPlaces().behind(part, at)
        return behind or (part.limit if has_next else None)

    def _may_go_on(self, file: File, at: int, start: int) -> bool:
        return any(file.read(at, 8)) or self._has_data(start + file.size())

    def _has_data(self, start: int) -> bool:
        file = self._open(start)
        if file is None:
            return False
        with closing(file):
            return any(file.read(0, 8))

    def read(self, start: int, end: int, segment_size: int) -> bytes | None:
        """Bytes of the log inside one segment, unchecked; None when the segment is cleaned."""
        segment = start - start % segment_size
        file = self._open(segment)
        if file is None:
            return None
        with closing(file):
            data = file.read(start - segment, end - start)
            return data if len(data) == end - start else None

    def _open(self, start: int) -> File | None:
        try:
            return self.disk.open(f"{self.root}/commitlog/{start:0{NAME_DIGITS}d}", read_only=True)
        except FileNotFoundError:
            return None
