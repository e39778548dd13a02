"""The commit log, compared with its seals, and its records with the units of the queues.

First a piece of the log is compared with its seals (``seal_scrub``), then the records that are
whole in what has been compared are walked over, a few at a time. Each states its place in a queue.
A record without a seal, as RocketMQ wrote it, has at least the checksum of its body.
"""

from __future__ import annotations

import structlog

from .mapped_file import MappedFile
from .record_check import CheckKind, check_record
from .record_layout import BLANK, BLANK_MAGIC, BLANK_SIZE, FIXED_SIZE_V1
from .record_places import LogPart
from .seal_page import STRETCH_SIZE
from .seal_scrub import BLOCK_SIZE, PIECE_SIZE, Scrubbed, SealScrub
from .store_files import StoreFiles
from .unit_scrub import UnitScrub

RECORD_COUNT = 64
"""Records that are compared with their units in one go: about a millisecond."""

RECORD_WORK = 1024
"""The cost of comparing a record with its unit, in bytes: small ones cost the processor more than
the disk. At four mebibytes a second it is at most a twentieth of a processor."""

log = structlog.get_logger("timermq.timerstore.log_scrub")


class LogScrub:
    """The commit log and the queues of one store.

    Args:
        store: Its parts, recovered.
    """

    def __init__(self, store: StoreFiles) -> None:
        self._store = store
        self._log = store.log
        self._seals = SealScrub(store.log.old.files, store.log.old.note)
        self._from = self._to = 0
        """The stretch around the walk that was compared with its seals."""
        self._next = -1
        """Position at which the walk goes on; any other may be within a record."""

    @property
    def start(self) -> int:
        """Position of the oldest record."""
        return self._log.min_offset

    @property
    def end(self) -> int:
        """Position behind the newest one."""
        return self._log.max_offset

    def begin(self) -> None:
        """Begin a pass, as ``SealScrub.begin`` does."""
        self._seals.begin()

    def step(self, at: int, end: int) -> Scrubbed:
        """Look at one piece, as ``SealScrub.step`` does.

        Args:
            at: Where it begins: what a step before gave, or any position.
            end: Of the last record to look at.

        Raises:
            OSError: As there.
        """
        at = max(at, self.start)
        segment = self._log.segment_at(at)
        if segment is None or at >= end:
            return Scrubbed(at=end)
        limit = min(segment.end, end)
        if not max(self._from, segment.start) <= at <= self._to:
            self._from = self._to = at
        if self._to < min(self._wanted(segment, at), limit):
            stretch = (self._to - segment.start) // STRETCH_SIZE * STRETCH_SIZE
            to = min(segment.start + stretch + PIECE_SIZE, limit)
            found = self._seals.compare(segment, self._to, to)
            self._seals.seal(segment, self._to, to)
            self._to = to
            return Scrubbed(at=at, size=found.size, damaged=found.damaged, repaired=found.repaired)
        return self._walk(segment, at, limit)

    def announce(self, at: int, end: int) -> None:
        """Have what the next piece reads brought to memory meanwhile."""
        self._seals.announce(max(at, self._to) if self._from <= at else at, end)

    def _wanted(self, segment: MappedFile, at: int) -> int:
        """End of the part to compare with its seals before the record at ``at`` is read."""
        end = at + BLANK_SIZE
        if end > min(self._to, segment.end) or self._seals.is_unread(at, end):
            return end
        size, magic = BLANK.struct.unpack_from(segment.file.map(), at - segment.start)
        is_record = magic != BLANK_MAGIC and FIXED_SIZE_V1 <= size <= segment.end - at
        return at + size if is_record else end

    def _walk(self, segment: MappedFile, at: int, limit: int) -> Scrubbed:
        """Compare some records with their units."""
        units, damaged, work = UnitScrub(self._store), 0, 0
        is_sure = at in (self._next, segment.start)
        for _ in range(RECORD_COUNT):
            wanted = self._wanted(segment, at)
            if at >= limit or (wanted > self._to and self._to < limit):
                break
            if self._seals.is_unread(at, wanted):
                # Its size is known, unless the head is what cannot be read.
                is_sure, at = False, wanted
                continue
            work += RECORD_WORK
            found = self._record(segment, at, limit, units)
            if found is None:
                damaged += is_sure and self._tell(segment, at)
                is_sure, at = False, self._behind(segment, at)
            else:
                is_sure, at = True, found
        self._next = at if is_sure else -1
        return Scrubbed(
            at=at,
            size=units.size,
            work=work,
            damaged=units.damaged + damaged,
            repaired=units.repaired,
        )

    def _record(self, segment: MappedFile, at: int, limit: int, units: UnitScrub) -> int | None:
        """Look at a record; the end of it, or of the segment. None where none stands."""
        view, start = segment.file.map(), segment.start
        result = check_record(view, at - start, limit - start, at, check_crc=True)
        if result.kind is CheckKind.BLANK:
            return segment.end
        if result.kind is CheckKind.BAD:
            return None
        end = at + result.size
        if self._log.old.compare(at, end):
            units.look(at, view[at - start : end - start])
        return end

    def _tell(self, segment: MappedFile, at: int) -> bool:
        """Tell of something that is no record, unless its seal has told."""
        if not self._log.old.compare(at, self._wanted(segment, at)):
            return False
        limit = min(segment.size, self.end - segment.start)
        view = segment.file.map()
        found = check_record(view, at - segment.start, limit, at, check_crc=True)
        offset = at - segment.start
        log.error("damaged record", path=segment.file.path, offset=offset, found=found.reason)
        return True

    def _behind(self, segment: MappedFile, at: int) -> int:
        """Position of the next good record, or the end of what has been compared."""
        places, to = self._log.places, self._to
        size = places.size_at(at)
        first = min(at + max(size, 1), to)
        while self._seals.is_unread(first, to):
            first = min(first - (first - segment.start) % BLOCK_SIZE + BLOCK_SIZE, to)
        data = segment.file.read(first - segment.start, to - first)
        part = LogPart(data, len(data), first, is_whole=to == segment.end)
        if size and first == at + size and part.has_record(0):
            return first
        found = places.next_from(part, 0)
        return to if found is None else first + found
