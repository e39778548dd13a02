"""Records at given places of the commit log, read together.

Places near each other are read at one go, with what stands between them. A batch has a bounded
size, so a job needs no more memory for records of a megabyte than for those of a kilobyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Places

from .file_part import FilePart
from .places import RangeReader
from .record_chunks import RecordChunk, records_in
from .store_view import LogView

BATCH_BYTES = 32 << 20
"""Bytes of records that are held together, and of what is read between them."""
GAP_BYTES = 4096
"""A gap between two records is read with them up to this size: a read costs as much."""


def gathered(
    log: LogView, positions: Places, sizes: Places
) -> Iterator[tuple[RecordChunk, NDArray[np.intp]]]:
    """Read records.

    Args:
        log: The commit log.
        positions: Where they begin, in any order.
        sizes: Bytes of each, more than 0.

    Returns:
        Records in the order of the log, and which of the places they stand at. What is no record of
        its size, and what does not lie in the log, is left out.

    Raises:
        SparkJobError: The store was cleaned meanwhile.
    """
    rows = np.argsort(positions, kind="stable")
    starts, ends = positions[rows], positions[rows] + sizes[rows]
    in_segment = starts % log.segment_size + sizes[rows] <= log.segment_size
    rows = rows[(starts >= log.start) & (ends <= log.end) & in_segment]
    if not len(rows):
        return
    costs = np.cumsum(sizes[rows] + GAP_BYTES) // BATCH_BYTES
    bounds = np.flatnonzero(np.diff(costs)) + 1
    with ExitStack() as files:
        reader = _Reader(log, files)
        for first, last in pairwise([0, *bounds.tolist(), len(rows)]):
            batch = rows[first:last]
            data, places = reader.read(positions[batch], sizes[batch])
            chunk, are = records_in(data, places, positions[batch])
            fits = chunk.heads["total_size"] == sizes[batch[are]]
            chunk = chunk.only(fits)
            if len(chunk):
                yield chunk, batch[are][fits]


class _Reader:
    """Reads places of a log, its files kept open."""

    def __init__(self, log: LogView, files: ExitStack) -> None:
        self._log = log
        self._files = files
        self._open: dict[int, RangeReader] = {}

    def read(self, positions: Places, sizes: Places) -> tuple[bytes, Places]:
        """The bytes of all, in one piece, and where in it each begins."""
        segments = positions // self._log.segment_size
        ends = positions + sizes
        is_far = positions[1:] - np.maximum.accumulate(ends)[:-1] > GAP_BYTES
        cuts = np.flatnonzero(is_far | (np.diff(segments) != 0)) + 1
        pieces, places, size = list[bytes](), np.empty(len(positions), np.int64), 0
        for first, last in pairwise([0, *cuts.tolist(), len(positions)]):
            low, high = int(positions[first]), int(ends[first:last].max())
            piece = self._read(low, high)
            places[first:last] = positions[first:last] - low + size
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), places

    def _read(self, low: int, high: int) -> bytes:
        start = low - low % self._log.segment_size
        part = FilePart(self._log.path(start), start, low, high)
        if start not in self._open:
            self._open[start] = part.opened()
            self._files.callback(self._open[start].close)
        data = self._open[start].read_at(high - low, low - start)
        if len(data) < high - low:
            raise part.cleaned(f"an end at {low + len(data)}")
        return data
