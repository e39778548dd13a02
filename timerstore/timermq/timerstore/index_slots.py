"""The slots of the index file that is being filled, in memory: the newest entry of every chain.

Slots change all over the table, four bytes in a page of 4 KiB; writing each at once would cost a
system call a key. So pages are marked, and written back together when the index is flushed.

Source: the slot part of Java ``IndexFile``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .disk import File
from .index_layout import SLOT_SIZE

PAGE_SLOTS = 1024
"""Slots written back together: 4096 bytes."""
RUN_PAGES_MAX = 64
"""Neighbouring pages in one write or read: 256 KiB, so that the event loop is not held up."""


class SlotTable:
    """Slot number to entry number, 0 for none.

    Args:
        count: Slots.
    """

    def __init__(self, count: int) -> None:
        self.numbers: NDArray[np.int32] = np.zeros(count, np.int32)
        self._dirty_pages = np.zeros(-(-count // PAGE_SLOTS), np.bool_)

    @classmethod
    def load(cls, file: File, at: int, count: int) -> SlotTable:
        """The table of ``count`` slots that stands in a file from byte ``at`` on."""
        table = cls(count)
        for first, stored in _stored(file, at, count):
            table.numbers[first : first + len(stored)] = stored
        return table

    @property
    def is_dirty(self) -> bool:
        """Whether pages have to be written back."""
        return bool(self._dirty_pages.any())

    def used_count(self) -> int:
        """Number of slots that hold an entry."""
        return int(np.count_nonzero(self.numbers))

    def agrees(self, *, index_count: int, used_count: int) -> bool:
        """Whether all slots name entries below ``index_count`` and ``used_count`` are in use."""
        return (
            int(self.numbers.min()) >= 0
            and int(self.numbers.max()) < index_count
            and self.used_count() == used_count
        )

    def link(
        self, slots: NDArray[np.int64], numbers: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], int]:
        """Find what new entries come after; the table is not changed.

        The entry before is in the same batch or in the table. Sorted by slot, stably, neighbours
        of one slot are links, and the head of each group looks into the table: ::

            slots    7 3 7 7      by slot   3   7 7 7      links   t[3] t[7] 4 6
            numbers  4 5 6 7      numbers   5   4 6 7      back in order: t[7] t[3] 4 6

        Args:
            slots: Slot of each new entry.
            numbers: Their ascending numbers.

        Returns:
            The number of the entry before each, 0 for none; how many slots come into use.
        """
        order = np.argsort(slots, kind="stable")
        in_order = slots[order]
        is_head = np.ones(len(slots), np.bool_)
        np.not_equal(in_order[1:], in_order[:-1], out=is_head[1:])
        before = self.numbers[in_order[is_head]]
        links = np.empty(len(slots), np.int32)
        links[1:] = numbers[order[:-1]]
        links[is_head] = before
        previous = np.empty_like(links)
        previous[order] = links
        return previous, int(np.count_nonzero(before == 0))

    def put(self, slots: NDArray[np.int64], numbers: NDArray[np.int32]) -> None:
        """Make entries the newest of their slots; of several in one slot the last one is."""
        self.numbers[slots] = numbers
        self._dirty_pages[slots // PAGE_SLOTS] = True

    def clear(self) -> None:
        """Forget all entries; ``mark_difference`` tells then which pages have to be written."""
        self.numbers[:] = 0

    def mark_difference(self, file: File, at: int) -> None:
        """Let exactly those pages be dirty that differ from what a file holds from ``at`` on."""
        self._dirty_pages[:] = False
        for first, stored in _stored(file, at, len(self.numbers)):
            differs = np.flatnonzero(self.numbers[first : first + len(stored)] != stored)
            self._dirty_pages[(first + differs) // PAGE_SLOTS] = True

    def dirty_runs(self) -> list[tuple[int, int]]:
        """Neighbouring dirty pages as [first, end), at most ``RUN_PAGES_MAX`` in each."""
        runs: list[tuple[int, int]] = []
        for page in np.flatnonzero(self._dirty_pages).tolist():
            if runs and runs[-1][1] == page and page - runs[-1][0] < RUN_PAGES_MAX:
                runs[-1] = (runs[-1][0], page + 1)
            else:
                runs.append((page, page + 1))
        return runs

    def encode_pages(self, first: int, end: int) -> tuple[int, bytes]:
        """Pages [first, end): byte position in the table, and the bytes."""
        start = first * PAGE_SLOTS
        data = self.numbers[start : end * PAGE_SLOTS].astype(">i4").tobytes()
        return start * SLOT_SIZE, data

    def mark_written(self, first: int, end: int) -> None:
        """The file holds pages [first, end) as they are now."""
        self._dirty_pages[first:end] = False


def _stored(file: File, at: int, count: int) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """Runs of slots as they stand in a file, each with the number of its first slot.

    A run at a time: all bytes together would be as much memory again as the table takes.
    """
    for first in range(0, count, RUN_PAGES_MAX * PAGE_SLOTS):
        run = min(RUN_PAGES_MAX * PAGE_SLOTS, count - first)
        data = file.read(at + first * SLOT_SIZE, run * SLOT_SIZE)
        yield first, np.frombuffer(data, ">i4").astype(np.int32)
