"""The seals of a log in segments, as they are written (``seal_reader`` has where they are).

Bytes are appended first and sealed then, at once or before the next flush (``SealMoment``), so a
kill in between leaves a page that covers less than the segment holds. A page may also reach the
disk before the bytes do, and the power fail then: the sector is not as it was written, which is
what the seal says. So a seal that does not fit always tells the truth; a seal that is missing tells
nothing.

What was written behind a cut has seals of its own, which must be gone before other bytes take the
place: ``begin`` sees to that. A process that was killed there has left pages that end at the cut,
with the seals behind it on the disk below: so the first ``begin`` of a process syncs what it finds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import numpy as np
import structlog

from .disk import Bytes, Disk, File, is_for_a_while
from .seal_page import (
    PAGE_SIZE,
    SEALS_IN_PAGE,
    SECTOR_SIZE,
    STRETCH_SIZE,
    SealPage,
    changed_at,
    encode_pages,
    seals_behind,
    seals_of,
)
from .seal_reader import READ_SIZE, SealReader

WAITING_SIZE_MAX = 64 << 10
"""Appended bytes that may wait for their seals."""

log = structlog.get_logger("timermq.timerstore.seals")


class SealMoment(enum.Enum):
    """When appended bytes are sealed: many small appends cost less when sealed together."""

    APPEND = enum.auto()
    FLUSH = enum.auto()
    """At the latest before the flush, or when ``WAITING_SIZE_MAX`` bytes wait."""


class Seals(SealReader):
    """The seals of one log that is written or read.

    Args:
        disk: The disk of the files.
        directory: Of the segments.
        segment_size: Bytes of one segment.
        moment: When appended bytes are sealed.
        read_only: Nothing is written.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segment_size: int,
        moment: SealMoment = SealMoment.APPEND,
        *,
        read_only: bool,
    ) -> None:
        super().__init__(disk, directory)
        self._segment_size = segment_size
        self._stretch_count = -(-segment_size // STRETCH_SIZE)
        self._read_only = read_only
        self._waiting_size_max = WAITING_SIZE_MAX if moment is SealMoment.FLUSH else 0
        self._waiting: list[tuple[int, Bytes]] = []
        """The appended bytes that are not sealed yet, with their positions."""
        self._waiting_size = 0
        self._file: File | None = None
        """The pages of the segment that is appended to; None: nothing is sealed."""
        self._page = SealPage.empty(0)
        """The page that is not full yet."""
        self._tail = b""
        """The content of the sector that is not full yet."""
        self._damage = 0
        """By how much the seal of the sector that is not full yet is another than that of what
        stands there: it was damaged before it was full."""
        self._end = -1
        """Position of the next append."""
        self._begun_at = 0
        """Start of the stretch in which ``begin`` went on; 0 when nothing is sealed."""
        self._unsynced: list[File] = []
        self._has_new_name = False
        """Pages were made whose name is not durable."""

    # -- writing ------------------------------------------------------------------------------

    def begin(self, segment_start: int, end: int, segment: File) -> None:
        """Go on at ``end``: what stands behind it has no seal any more, also after a power cut.

        Sectors of the last stretch that have no seal get one. Without room nothing is sealed until
        the log is opened again.

        Args:
            segment_start: Where the segment that is appended to begins.
            end: Of the log, in this segment.
            segment: Its file.

        Raises:
            OSError: The disk failed.
        """
        if self._read_only:
            return
        is_first = self._file is None
        self.close()
        path = self.path(segment_start)
        is_new = not self._disk.exists(path)
        try:
            changed = self._disk.make_dirs(self.directory)
            self._file = self._create(segment_start)
        except OSError as error:
            if not is_for_a_while(error):
                raise
            log.warning("no room for seals", directory=self.directory, error=str(error))
            return
        if is_new:
            # No segment is begun here, whose name is synced, and that of its pages with it.
            for one in (*changed, self.directory):
                self._disk.sync_dir_now(one)
        if (self._cut(self._file, segment_start, end, segment) or is_first) and not is_new:
            self._disk.sync_now(self._file)
        else:
            self._unsynced = [self._file]
        self._begun_at = self._page.start

    def _cut(self, pages: File, segment_start: int, end: int, segment: File) -> bool:
        """Let the pages end at ``end``; whether any seal behind it is gone."""
        at = end - segment_start
        number = at // STRETCH_SIZE
        first = number * STRETCH_SIZE
        data = segment.read(first, at - first)
        sealed = self.read_page(pages, segment_start, number)
        found = seals_of(data)
        seals, is_found = found.copy(), len(data) > 0
        if sealed is not None:
            is_found = sealed.is_found or sealed.covered < len(data)
            # A damaged sector stays one: its seal is not made to fit.
            is_all = sealed.covered == len(data)
            whole = len(found) if is_all else min(sealed.covered, len(data)) // SECTOR_SIZE
            seals[:whole] = sealed.seals[:whole]
        start = segment_start + first
        page = SealPage(start=start, covered=len(data), seals=seals, is_found=is_found)
        self._page, self._end = page, end
        self._damage = 0
        if len(data) % SECTOR_SIZE:
            self._damage = (int(seals[-1]) - int(found[-1])) % (1 << 64)
        self._tail = data[len(data) - len(data) % SECTOR_SIZE :]
        pages.write(number * PAGE_SIZE, page.encode())
        behind_at = (number + 1) * PAGE_SIZE
        has_more = _clear(pages, behind_at)
        return has_more or (sealed is not None and sealed.covered > page.covered)

    def start_segment(self, segment_start: int) -> list[str]:
        """Reserve the pages of a segment that is made; the directories that have a new entry.

        Raises:
            OSError: No room; nothing has changed.
        """
        changed = self._disk.make_dirs(self.directory)
        is_new = not self._disk.exists(self.path(segment_start))
        file = self._create(segment_start)
        if not is_new:
            # A power cut took the segment and left its pages.
            _clear(file, 0)
            self._disk.sync_now(file)
        file.close()
        return [*changed, self.directory]

    def extend(self, offset: int, data: Bytes) -> None:
        """Seal bytes that were appended at ``offset``, now or at the flush."""
        self._waiting.append((offset, data))
        self._waiting_size += len(data)
        if self._waiting_size > self._waiting_size_max:
            self.seal()

    def seal(self) -> None:
        """Seal what was appended.

        The bytes are there by now. So a disk that refuses their seals does not undo them:
        nothing is sealed then until the log is opened again, and what has no seal counts as good.
        """
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        try:
            for offset, data in self._joined(waiting):
                self._extend(offset, data)
        except OSError as error:
            log.warning("nothing is sealed", directory=self.directory, error=str(error))
            self._tail, self._end = b"", -1

    def _joined(self, waiting: list[tuple[int, Bytes]]) -> Iterator[tuple[int, Bytes]]:
        """Appends that follow each other in one segment, as one."""
        first, parts, end = -1, list[Bytes](), -1
        for offset, data in waiting:
            if offset != end or offset % self._segment_size == 0:
                if parts:
                    yield first, b"".join(parts)
                first, parts = offset, []
            parts.append(data)
            end = offset + len(data)
        if parts:
            yield first, b"".join(parts)

    def _extend(self, offset: int, data: Bytes) -> None:
        if offset % self._segment_size == 0:
            self._go_on_in(offset)
        elif offset != self._end:
            return
        size = len(self._tail) + len(data)
        found, self._tail = seals_behind(self._tail, data)
        if self._damage:
            found[:1] += np.uint64(self._damage)
            if size >= SECTOR_SIZE:
                self._damage = 0
        page = self._page
        whole = page.covered // SECTOR_SIZE
        seals = np.concatenate((page.seals[:whole], found)) if whole else found
        covered = page.covered + len(data)
        pages = encode_pages(page.start, covered, seals, is_found=page.is_found)
        full, covered = divmod(covered, STRETCH_SIZE)
        self._page = SealPage(
            start=page.start + full * STRETCH_SIZE,
            covered=covered,
            seals=seals[full * SEALS_IN_PAGE :],
            is_found=page.is_found and not full,
        )
        self._end = offset + len(data)
        assert self._file is not None
        at = page.start % self._segment_size // STRETCH_SIZE * PAGE_SIZE
        self._file.write(at, pages)
        if self._file not in self._unsynced:
            self._unsynced.append(self._file)

    def _go_on_in(self, segment_start: int) -> None:
        if self._file is not None and self._file not in self._unsynced:
            self._file.close()
        self._file = self._disk.open(self.path(segment_start))
        self._page = SealPage.empty(segment_start)
        self._tail, self._end = b"", segment_start
        self._damage = 0

    def seal_old(self, segment_start: int, segment: File, first: int, end: int) -> None:
        """Seal the whole stretches of [first, end) that have no page and were there at ``begin``.

        RocketMQ wrote them, or their pages are lost or damaged. What has no seal counts as good, so
        it is sealed as it is. Without room nothing is sealed. The next ``flush`` makes it durable.

        Args:
            segment_start: Start of the segment.
            segment: Its file.
            first: Position in the log, in this segment.
            end: Position; of a stretch that ends behind it nothing is sealed.

        Raises:
            OSError: The disk failed.
        """
        try:
            for number, at, to in self._without_page(segment_start, first, end):
                seals = seals_of(segment.read(at - segment_start, to - at))
                page = SealPage(start=at, covered=to - at, seals=seals, is_found=True)
                self._unsynced_pages(segment_start).write(number * PAGE_SIZE, page.encode())
        except OSError as error:
            if not is_for_a_while(error):
                raise

    def _without_page(self, segment_start: int, first: int, end: int) -> list[tuple[int, int, int]]:
        """Number, begin and end of each stretch that ``seal_old`` seals."""
        found = list[tuple[int, int, int]]()
        with self._pages(segment_start) as pages:
            for number in range((first - segment_start) // STRETCH_SIZE, self._stretch_count):
                at = segment_start + number * STRETCH_SIZE
                to = min(at + STRETCH_SIZE, segment_start + self._segment_size)
                if to > min(end, self._begun_at):
                    break
                if pages is None or self.read_page(pages, segment_start, number) is None:
                    found.append((number, at, to))
        return found

    def _unsynced_pages(self, segment_start: int) -> File:
        """The pages of an old segment, among those that the next ``flush`` syncs."""
        path = self.path(segment_start)
        for file in self._unsynced:
            if file.path == path:
                return file
        self._has_new_name |= not self._disk.exists(path)
        file = self._create(segment_start)
        self._unsynced.append(file)
        return file

    async def flush(self) -> None:
        """Make the seals durable.

        Raises:
            OSError: The sync failed; it must not be retried.

        Cancellation: the next flush does it.
        """
        self.seal()
        files, self._unsynced = self._unsynced, []
        try:
            if files:
                await self._disk.sync(*files)
            if self._has_new_name:
                await self._disk.sync_dir(self.directory)
                self._has_new_name = False
        except BaseException:
            self._unsynced += [one for one in files if one not in self._unsynced]
            raise
        for file in files:
            if file is not self._file and file not in self._unsynced:
                file.close()

    def drop(self, segment_start: int) -> None:
        """A segment is about to be removed: its seals go before, durably (blocking).

        One that has seals and is not there counts as lost.

        Raises:
            OSError: The disk failed; the segment must stay.
        """
        if self._disk.exists(self.path(segment_start)):
            self._disk.remove(self.path(segment_start))
        if self._disk.is_dir(self.directory):
            # Also where an earlier process removed them, and was killed before it synced that.
            self._disk.sync_dir_now(self.directory)

    def close(self) -> None:
        """Close the files; nothing is written."""
        for file in self._unsynced:
            file.close()
        if self._file is not None:
            self._file.close()
        self._unsynced, self._file, self._end, self._begun_at = [], None, -1, 0
        self._waiting, self._waiting_size = [], 0

    def _create(self, segment_start: int) -> File:
        path = self.path(segment_start)
        is_new = not self._disk.exists(path)
        file = self._disk.open(path, create=True)
        try:
            file.allocate(self._stretch_count * PAGE_SIZE)
        except OSError:
            file.close()
            if is_new:
                self._disk.remove(path)
            raise
        return file

    # -- repairing ------------------------------------------------------------------------------

    def repair(self, segment_start: int, segment: File, first: int, end: int) -> list[int]:
        """Put sectors right of which one word alone is another; positions of those that stay so.

        Args:
            segment_start: Start of the segment.
            segment: Its file.
            first: As for ``damaged``.
            end: As for ``damaged``.

        Raises:
            OSError: The disk did not take it.
        """
        sectors = self.damaged(segment_start, segment, first, end)
        return [one for one in sectors if not self._repair(segment_start, segment, one)]

    def _repair(self, segment_start: int, segment: File, sector: int) -> bool:
        before = None if self._read_only else self.before(segment_start, segment, sector)
        if before is None:
            return False
        at = sector - segment_start
        data = segment.read(at, len(before))
        segment.write(at, before)
        self._disk.sync_now(segment)
        log.warning(
            "damaged word put right", path=segment.path, offset=at + changed_at(data, before)
        )
        return True


def _clear(pages: File, first: int) -> bool:
    """Overwrite with zeros what stands from a byte on; whether anything did."""
    found = False
    for at in range(first, pages.size(), READ_SIZE):
        data = pages.read(at, READ_SIZE)
        if data.count(0) < len(data):
            pages.write(at, bytes(len(data)))
            found = True
    return found
