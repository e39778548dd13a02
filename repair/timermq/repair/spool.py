"""Numbers kept by segment of the commit log, in a temporary file when they are many.

A check of a big store has to bring together what stands far apart: a message and its delivery, a
unit and its record. Both name the position of the message, so what belongs to one segment of the
log is compared by itself. Memory is that of one segment's numbers, whatever the size of the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

ROWS_HELD_MAX = 1 << 18
"""Rows in memory before they go to the file: 10 MB of five columns."""

Rows = NDArray[np.int64]


class Spool:
    """Rows of integers, each under the number of a segment.

    Args:
        column_count: Integers of a row.
    """

    def __init__(self, column_count: int) -> None:
        self._column_count = column_count
        self._held: dict[int, list[Sequence[int]]] = {}
        self._parts: dict[int, list[Rows]] = {}
        self._held_count = 0
        self._stored: dict[int, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None
        """There is one when rows did not fit any more."""
        self._end = 0

    def add(self, segment: int, row: Sequence[int]) -> None:
        """Keep one row under a segment."""
        self._held.setdefault(segment, []).append(row)
        self._held_count += 1
        if self._held_count >= ROWS_HELD_MAX:
            self._store()

    def extend(self, segments: NDArray[np.int64], rows: Rows) -> None:
        """Keep many rows, each under the segment beside it."""
        for segment in np.unique(segments).tolist():
            self._parts.setdefault(segment, []).append(rows[segments == segment])
        self._held_count += len(rows)
        if self._held_count >= ROWS_HELD_MAX:
            self._store()

    def segments(self) -> Iterable[int]:
        """The segments that have rows."""
        return self._held.keys() | self._parts.keys() | self._stored.keys()

    def take(self, segment: int) -> Rows:
        """The rows of a segment, in the order in which they came."""
        parts = [np.empty((0, self._column_count), np.int64)]
        for offset, size in self._stored.get(segment, ()):
            assert self._file is not None
            self._file.seek(offset)
            stored = np.frombuffer(self._file.read(size), np.int64)
            parts.append(stored.reshape(-1, self._column_count))
        parts += self._parts.get(segment, ())
        held = self._held.get(segment)
        if held:
            parts.append(np.array(held, np.int64).reshape(-1, self._column_count))
        return np.concatenate(parts)

    def close(self) -> None:
        """Close the temporary file, which removes it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _store(self) -> None:
        for segment, rows in self._held.items():
            self._write(segment, np.array(rows, np.int64).reshape(-1, self._column_count))
        for segment, parts in self._parts.items():
            self._write(segment, np.concatenate(parts))
        self._held.clear()
        self._parts.clear()
        self._held_count = 0

    def _write(self, segment: int, rows: Rows) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        data = rows.tobytes()
        self._file.seek(self._end)
        self._file.write(data)
        self._stored.setdefault(segment, []).append((self._end, len(data)))
        self._end += len(data)
