"""The seals of a log in segments, as they are read.

For the segment ``<root>/<directory>/<20 digits>`` the pages stand in
``<root>/timermq-seals/<directory>/<20 digits>``, where RocketMQ does not look. A store that
RocketMQ wrote has none, and any of the files may be missing: what has no seal counts as good.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator

from .disk import Disk, File
from .seal_page import PAGE_SIZE, SECTOR_SIZE, STRETCH_SIZE, SealPage, repaired

DIRECTORY = "timermq-seals"

READ_SIZE = 1 << 20
"""Bytes of pages that are read in one step."""


def seals_directory(directory: str) -> str:
    """The directory of the seals of the segments in a directory right below a store's root."""
    root, _, name = directory.rpartition("/")
    return f"{root}/{DIRECTORY}/{name}"


def remove_seals(disk: Disk, directory: str) -> None:
    """Forget the seals of a log that another program has written (blocking).

    Args:
        disk: The disk of the store.
        directory: Of the segments.

    Raises:
        OSError: The disk failed.
    """
    place = seals_directory(directory)
    names = disk.list_dir(place)
    for name in names:
        disk.remove(f"{place}/{name}")
    if names:
        disk.sync_dir_now(place)


class SealReader:
    """The seals of one log.

    Args:
        disk: The disk of the files.
        directory: Of the segments.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.directory = seals_directory(directory)
        self._disk = disk

    def sealed_end(self, segment_start: int, first: int) -> int | None:
        """Up to where a segment is sealed; None when no page from ``first`` on says so.

        Args:
            segment_start: Start of the segment.
            first: Position in the log, in this segment: pages of stretches before it are left out.
        """
        number = (first - segment_start) // STRETCH_SIZE
        last: int | None = None
        with self._pages(segment_start) as pages:
            if pages is None:
                return None
            for at in range(number * PAGE_SIZE, pages.size(), READ_SIZE):
                data = pages.read(at, READ_SIZE)
                if data.count(0) < len(data):
                    start = segment_start + at // PAGE_SIZE * STRETCH_SIZE
                    last = max(_sealed_ends(data, start), default=last)
        return last

    def damaged(self, segment_start: int, segment: File, first: int, end: int) -> list[int]:
        """Positions of sealed sectors that are not as they were written.

        Args:
            segment_start: Start of the segment.
            segment: Its file.
            first: Position in the log, in this segment; sectors that end behind it are wanted.
            end: Sectors that begin before it are wanted.
        """
        found: list[int] = []
        with self._pages(segment_start) as pages:
            if pages is None:
                return found
            from_at, to_at = first - segment_start, end - segment_start
            for number in range(from_at // STRETCH_SIZE, -(-to_at // STRETCH_SIZE)):
                page = self.read_page(pages, segment_start, number)
                if page is not None:
                    data = segment.read(number * STRETCH_SIZE, page.covered)
                    sectors = (page.start + one * SECTOR_SIZE for one in page.damaged(data))
                    found += [one for one in sectors if first - SECTOR_SIZE < one < end]
        return found

    def prove(self, segment_start: int, first: int, end: int) -> bool:
        """Whether [first, end) of a segment is sealed as it was written: what fits is right.

        Not so without a seal, or where one was made of what was found.
        """
        with self._pages(segment_start) as pages:
            from_at, to_at = first - segment_start, end - segment_start
            for number in range(from_at // STRETCH_SIZE, -(-to_at // STRETCH_SIZE)):
                page = None if pages is None else self.read_page(pages, segment_start, number)
                wanted = min(to_at - number * STRETCH_SIZE, STRETCH_SIZE)
                if page is None or page.is_found or page.covered < wanted:
                    return False
        return True

    def before(self, segment_start: int, segment: File, sector: int) -> bytes | None:
        """A damaged sector as it was, as far as it is sealed; None if its seal cannot tell."""
        number, rest = divmod(sector - segment_start, STRETCH_SIZE)
        with self._pages(segment_start) as pages:
            page = None if pages is None else self.read_page(pages, segment_start, number)
        if page is None:
            return None
        data = segment.read(sector - segment_start, min(page.covered - rest, SECTOR_SIZE))
        return repaired(data, int(page.seals[rest // SECTOR_SIZE]))

    def page_of(self, segment_start: int, position: int) -> SealPage | None:
        """The page that seals a position in the log, of one segment; None without one."""
        number = (position - segment_start) // STRETCH_SIZE
        with self._pages(segment_start) as pages:
            return None if pages is None else self.read_page(pages, segment_start, number)

    @contextlib.contextmanager
    def _pages(self, segment_start: int) -> Generator[File | None]:
        path = self.path(segment_start)
        if not self._disk.exists(path):
            yield None
            return
        file = self._disk.open(path, read_only=True)
        try:
            yield file
        finally:
            file.close()

    def read_page(self, pages: File, segment_start: int, number: int) -> SealPage | None:
        """The page of a stretch, by its number in the segment; None when its bytes are not one."""
        start = segment_start + number * STRETCH_SIZE
        return SealPage.decode(pages.read(number * PAGE_SIZE, PAGE_SIZE), start)

    def path(self, segment_start: int) -> str:
        """The path of a segment's pages."""
        return f"{self.directory}/{segment_start:020d}"


def _sealed_ends(data: bytes, start: int) -> Iterator[int]:
    """The ends of the stretches that some pages seal; ``start`` is that of the first page."""
    for index in range(len(data) // PAGE_SIZE):
        part = data[index * PAGE_SIZE : (index + 1) * PAGE_SIZE]
        page = SealPage.decode(part, start + index * STRETCH_SIZE) if part[0] else None
        if page is not None and page.covered:
            yield page.start + page.covered
