"""Seals of the sectors that a repair writes, renewed before it writes them.

A seal tells of damage that nothing else shows, so a segment keeps those of all other sectors. A
repair that ends in between leaves sectors that do not fit their seals, beside a hole that is still
there: the next one fills that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import attrs
import numpy as np

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.seal_page import PAGE_SIZE, SECTOR_SIZE, STRETCH_SIZE, SealPage, seals_of
from timermq.timerstore.seal_reader import SealReader

from .damage_fill import Fill


@attrs.frozen(kw_only=True)
class RenewedSeals:
    """The coming content of one segment of the log, and its seals then."""

    start: int
    """Position of the segment."""
    segment: File
    writes: Sequence[Fill]
    """The bytes written into it."""
    holes: Sequence[Hole]
    """The holes that are filled."""

    def write(self, disk: Disk, seals: SealReader) -> None:
        """Write the new seals, durably (blocking); what has none gets none.

        Args:
            disk: The disk of the store.
            seals: Of the log.

        Raises:
            OSError: The disk refused.
        """
        path = seals.path(self.start)
        if not disk.exists(path):
            return
        with closing(disk.open(path)) as pages:
            for number in sorted(set(self._stretches())):
                page = seals.read_page(pages, self.start, number)
                if page is not None and page.covered:
                    renewed = self._renewed(page)
                    pages.write(number * PAGE_SIZE, renewed)
            disk.sync_now(pages)

    def _stretches(self) -> Iterator[int]:
        """Numbers of the stretches in which something changes."""
        pieces = [(one.position, one.position + len(one.data)) for one in self.writes]
        for first, end in (*pieces, *((hole.position, hole.end) for hole in self.holes)):
            yield from range(
                (first - self.start) // STRETCH_SIZE, -(-(end - self.start) // STRETCH_SIZE)
            )

    def _renewed(self, page: SealPage) -> bytes:
        """The page with the seals of what will stand there.

        What is put right in its place does not vouch for the rest of a damaged sector: such a one
        keeps its seal, which tells whether that was all.
        """
        before = self.segment.read(page.start - self.start, page.covered)
        before = before.ljust(page.covered, b"\0")
        after = bytearray(before)
        for one in self.writes:
            at = one.position - page.start
            skipped = max(-at, 0)
            piece = one.data[skipped : max(page.covered - at, skipped)]
            after[at + skipped : at + skipped + len(piece)] = piece
        was, will_be = seals_of(before), seals_of(bytes(after))
        is_renewed = was == page.seals
        for hole in self.holes:
            first = max(hole.position - page.start, 0) // SECTOR_SIZE
            is_renewed[first : max(-(-(hole.end - page.start) // SECTOR_SIZE), first)] = True
        return attrs.evolve(page, seals=np.where(is_renewed, will_be, page.seals)).encode()
