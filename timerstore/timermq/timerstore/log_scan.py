"""The scan over the commit log that ends at the first thing that is no record.

It is what the readers that do not end there are made of: the walk of a start (``log_walk``), and
``log_reading``, which everything else uses.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from .mapped_file import MappedFile
from .mapped_file_queue import MappedFileQueue
from .record_check import CheckKind, check_record


class LogScan:
    """A walk over the records of a log, from a record's position to the first that is none.

    Iterating gives (position, size); afterwards `end` and `reason` say where it stopped and why.
    """

    def __init__(self, files: MappedFileQueue, first: int, *, check_crc: bool) -> None:
        self.end = first
        """End of the last good record, or of the blank behind it."""
        self.reason = "the end of the last segment"
        """The reason for the end: no record stands there."""
        self._files = files
        self._check_crc = check_crc

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self.end < self._files.wrote:
            segment = self._files.segment_at(self.end)
            if segment is None:
                return
            is_blank = yield from self._scan_segment(segment)
            if not is_blank:
                return
            self.end = segment.end

    def _scan_segment(self, segment: MappedFile) -> Generator[tuple[int, int], None, bool]:
        """Walk to a blank record (returns True) or to what is no record (False)."""
        view = segment.file.map()
        at = self.end - segment.start
        limit = min(segment.size, self._files.wrote - segment.start)
        while at < limit:
            result = check_record(view, at, limit, segment.start + at, check_crc=self._check_crc)
            if result.kind is CheckKind.BLANK:
                return True
            if result.kind is CheckKind.BAD:
                self.reason = result.reason
                return False
            yield segment.start + at, result.size
            at += result.size
            self.end = segment.start + at
        return False
