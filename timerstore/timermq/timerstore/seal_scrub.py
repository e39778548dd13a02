"""A log in segments, compared with its seals a piece at a time while it is served.

A piece is a few stretches of seals, read in one go. What was there at the start without a seal is
sealed, as it is. A damaged word is put right in its place; what stays damaged is told to the log's
readers, which are the gate before a body leaves. What the disk cannot read is told by its place and
counted, and says nothing of what stands there: the next pass may be able to read it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import structlog

from .disk import is_for_a_while
from .mapped_file import MappedFile
from .mapped_file_queue import MappedFileQueue
from .seal_page import STRETCH_SIZE

PIECE_SIZE = 8 * STRETCH_SIZE
"""Bytes that are read in one go, 244 KiB: a third of a millisecond to compare."""

BLOCK_SIZE = 4096
"""Bytes that the machine reads from the disk together."""

log = structlog.get_logger("timermq.timerstore.seal_scrub")


@attrs.frozen(kw_only=True)
class Scrubbed:
    """The result of a piece of a scrub."""

    at: int
    """Start of the next piece."""
    size: int = 0
    """Bytes that were read."""
    work: int = 0
    """Further cost for the processor, as bytes that might have been read in that time."""
    damaged: int = 0
    """Things that were not as they were written: sectors, units, tables."""
    repaired: int = 0
    """Those of them that are put right."""


@attrs.define(eq=False)
class SealScrub:
    """One log.

    Args:
        files: Its segments.
        note: Told the positions of sectors that stay damaged.
    """

    _files: MappedFileQueue
    _note: Callable[[list[int]], None]
    unread: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]], init=False)
    """Begin and end of what could not be read since ``begin``."""

    def begin(self) -> None:
        """Begin a pass: what could not be read before is forgotten."""
        self.unread.clear()

    @property
    def start(self) -> int:
        """Position of the first byte."""
        return self._files.min_offset

    @property
    def end(self) -> int:
        """Position behind the last one."""
        return self._files.wrote

    def step(self, at: int, end: int) -> Scrubbed:
        """Compare one piece; ``at`` of the answer is ``end`` when there is no other.

        Args:
            at: Where it begins; what is cleaned by now is passed over.
            end: Where the last piece ends.

        Raises:
            OSError: The disk did not take what was put right, or no file can be opened now.
        """
        at = max(at, self.start)
        segment = self._files.segment_at(at)
        if segment is None or at >= end:
            return Scrubbed(at=end)
        limit = min(segment.end, end)
        number = (at - segment.start) // STRETCH_SIZE
        to = min(segment.start + number * STRETCH_SIZE + PIECE_SIZE, limit)
        found = self.compare(segment, at, to)
        self.seal(segment, at, to)
        return found

    def seal(self, segment: MappedFile, at: int, to: int) -> None:
        """Seal [at, to) of a segment as far as it was there at the start and has no seal.

        ``MappedFileQueue.flush_seals`` makes that durable; without room nothing is sealed.

        Raises:
            OSError: The disk failed.
        """
        seals = self._files.seals
        if seals is not None and not self.is_unread(at, to):
            seals.seal_old(segment.start, segment.file, at, to)

    def seal_all(self) -> None:
        """As ``seal``, the whole log."""
        for segment in self._files.segments:
            self.seal(segment, segment.start, segment.end)

    def compare(self, segment: MappedFile, at: int, to: int) -> Scrubbed:
        """Compare [at, to) of a segment, which is a piece at most; ``OSError`` as for ``step``."""
        try:
            found = self._files.repair(at, to, only_look=True)
        except OSError as error:
            if is_for_a_while(error):
                raise
            return self._unreadable(segment, at, to, error)
        left = self._files.repair(at, to) if found else []
        self._tell(segment, left)
        return Scrubbed(
            at=to, size=to - at, damaged=len(found), repaired=max(len(found) - len(left), 0)
        )

    def is_sound(self, first: int, end: int) -> bool:
        """Compare now what a reader doubts; whether [first, end) of a segment was as written.

        What has been put right by it was not. Bytes without a seal count as sound.

        Raises:
            OSError: The disk did not take what was put right, or no file can be opened now.
        """
        segment = self._files.segment_at(first)
        if segment is None:
            return True
        at = first - (first - segment.start) % STRETCH_SIZE
        return not self.compare(segment, at, min(max(at + STRETCH_SIZE, end), segment.end)).damaged

    def is_all_sound(self) -> bool:
        """Compare all of the log now, which blocks for more than a second a gibibyte.

        Returns:
            Whether all was as written. What has been put right by it was not.

        Raises:
            OSError: As for ``step``.
        """
        at, end, damaged = self.start, self.end, 0
        while at < end:
            found = self.step(at, end)
            at, damaged = found.at, damaged + found.damaged
        return not damaged

    def announce(self, at: int, end: int) -> None:
        """Have what the next piece reads brought to memory meanwhile."""
        segment = self._files.segment_at(max(at, self.start))
        if segment is not None and at < end:
            segment.file.will_need([(max(at, self.start) - segment.start, PIECE_SIZE)])

    def is_unread(self, first: int, end: int) -> bool:
        """Whether any of [first, end) could not be read: in a map it would end the process."""
        unread = self.unread
        return bool(unread) and any(one < end and first < to for one, to in unread)

    def _unreadable(self, segment: MappedFile, at: int, to: int, failure: OSError) -> Scrubbed:
        """Find the blocks that cannot be read; without any it is the seals that cannot."""
        found: list[tuple[int, int]] = []
        for first in range(at - (at - segment.start) % BLOCK_SIZE, to, BLOCK_SIZE):
            try:
                segment.file.read(first - segment.start, BLOCK_SIZE)
            except OSError:
                found.append((first, first + BLOCK_SIZE))
        offsets = [first - segment.start for first, _ in found]
        log.error("cannot be read", path=segment.file.path, offsets=offsets, error=str(failure))
        self.unread += found
        return Scrubbed(at=to, size=to - at, damaged=max(len(found), 1))

    def _tell(self, segment: MappedFile, sectors: list[int]) -> None:
        for sector in sectors:
            log.error("damaged sector", path=segment.file.path, offset=sector - segment.start)
        if sectors:
            self._note(sectors)
