"""Bytes that an earlier process wrote: compared with their seals before anything relies on them.

What this process has written comes from memory as it was. What was there when it began may have
changed on the disk, and is compared a stretch at a time when it is read; that counts until
``compare_anew``. A single damaged word is put right; sectors that stay damaged are remembered,
until their bytes are put back from another copy of the log. What a scrub finds later is remembered
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .mapped_file import MappedFile
from .mapped_file_queue import MappedFileQueue
from .seal_page import SECTOR_SIZE, STRETCH_SIZE


class OldBytes:
    """The content of a log when it was opened.

    Args:
        files: The log.
    """

    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files
        """The log."""
        self.damaged: set[int] = set()
        """Positions of the sectors that are not as they were written."""
        self.on_damaged: Callable[[], None] | None = None
        """Called when sectors are found damaged that were not known to be."""
        self._scrubbed: set[int] = set()
        """Those of the damaged that a scrub has told of."""
        self._end = 0
        self._compared: set[int] = set()
        """Positions of the stretches that have been compared."""
        self._proved: set[int] = set()
        """Those of them that were sealed as they were written."""

    @property
    def end(self) -> int:
        """Everything before it is old."""
        return self._end

    def begin(self, end: int) -> None:
        """Everything before ``end`` is old from now on, and none of it has been compared."""
        self._end = end
        self._compared.clear()
        self._proved.clear()
        self.damaged.clear()
        self._scrubbed.clear()

    def compare_anew(self) -> None:
        """Compare each stretch once more when it is next read: it may have rotted since."""
        self._compared.clear()
        self._proved.clear()

    def note(self, sectors: list[int]) -> None:
        """These are damaged, also if this process wrote them: then all before them may be."""
        self._add(sectors)
        self._scrubbed.update(sectors)
        self._end = max(self._end, *(one + SECTOR_SIZE for one in sectors))

    def put_back(self, sector: int) -> bool:
        """A damaged sector is as it was written, durably; whether a scrub had told of it."""
        self.damaged.discard(sector)
        is_told = sector in self._scrubbed
        self._scrubbed.discard(sector)
        return is_told

    def _add(self, sectors: list[int]) -> None:
        if not self.damaged.issuperset(sectors):
            self.damaged.update(sectors)
            if self.on_damaged is not None:
                self.on_damaged()

    def cut(self, end: int, *, is_sealed: bool) -> None:
        """The log ends there.

        Args:
            end: Position.
            is_sealed: So do the seals. Otherwise a power cut may have kept seals of bytes that it
                took, so the sector that the end lies in is not known to be damaged.
        """
        self._end = min(self._end, end)
        # Of the last stretch less was sealed than it seemed to hold.
        self._compared = {one for one in self._compared if one + STRETCH_SIZE <= end}
        limit = end if is_sealed else end - SECTOR_SIZE + 1
        self.damaged = {one for one in self.damaged if one < limit}

    def compare(self, first: int, end: int) -> bool:
        """Compare what is old of [first, end); whether all of it is as it was written.

        Raises:
            OSError: The disk failed.
        """
        end = min(end, self._end)
        if first >= end:
            return True
        seals = self.files.seals
        for segment, start, to in self._stretches(first, end):
            if start not in self._compared:
                self._compared.add(start)
                self._add(self.files.repair(start, to))
                if seals is not None and seals.prove(segment.start, start, min(to, self._end)):
                    self._proved.add(start)
        return not self.damaged or not self._is_damaged(first, end)

    def is_proved(self, first: int, end: int) -> bool:
        """Whether [first, end), which ``compare`` finds as sealed, is what its writer meant.

        So is what this process has written. Other records have to be checked by themselves.
        """
        parts = self._stretches(first, min(end, self._end))
        return all(start in self._proved for _, start, _ in parts)

    def is_sealed(self, first: int, end: int) -> bool:
        """Whether all of [first, end), in one segment, is as it was sealed when it was written.

        Raises:
            OSError: The disk failed.
        """
        segment, seals = self.files.segment_at(first), self.files.seals
        return (
            segment is not None
            and seals is not None
            and end <= self._end
            and self.compare(first, end)
            and seals.prove(segment.start, first, end)
        )

    def _stretches(self, first: int, end: int) -> Iterator[tuple[MappedFile, int, int]]:
        """The stretches that hold [first, end): their segment, where they begin and end."""
        while first < end:
            segment = self.files.segment_at(first)
            if segment is None:
                return
            start = first - (first - segment.start) % STRETCH_SIZE
            first = min(start + STRETCH_SIZE, segment.end)
            yield segment, start, first

    def are_damaged(self, positions: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[int]:
        """Which of some pieces are not as they were written, by their index.

        Args:
            positions: Where they begin.
            sizes: Their sizes, bytes.

        Raises:
            OSError: The disk failed.
        """
        return [
            index
            for index in np.flatnonzero(positions < self._end).tolist()
            if not self.compare(int(positions[index]), int(positions[index] + sizes[index]))
        ]

    def _is_damaged(self, first: int, end: int) -> bool:
        return any(first - SECTOR_SIZE < one < end for one in self.damaged)
