"""A backup as the store that it would make, for checks that read a store's files.

The files stand in a temporary directory: tables whole, and segments of the log as files without
content. The content of a segment comes from the backup when it is first read, and goes when another
one is, so that the directory needs room for one segment. What the backup should have and has not is
kept, and zeros stand in its place.
"""

from __future__ import annotations

import mmap
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing

import attrs

from timermq.timerstore.disk import Bytes, File
from timermq.timerstore.mapped_file_queue import NAME_DIGITS
from timermq.timerstore.os_disk import OsDisk

from .backup_objects import BackupObjects
from .manifest import Piece, Stored, WholeSegment
from .tables import DIRECTORY
from .target import BackupError

Await = Callable[[Callable[[], Awaitable[None]]], None]
"""Calls something in the event loop, and waits for it."""


@attrs.frozen
class BadObject:
    """An object of a backup that is missing or damaged."""

    name: str
    reason: str
    is_table: bool = False


@attrs.define(eq=False)
class BackupStore:
    """The files of one backup, in a directory of their own.

    Args:
        objects: Of the backup.
        root: An empty directory.
    """

    objects: BackupObjects
    root: str
    bad: list[BadObject] = attrs.field(factory=list[BadObject], init=False)
    """Objects of the backup that are missing, or not as they were shipped."""
    _pieces: dict[int, list[Piece]] = attrs.field(factory=dict[int, list[Piece]], init=False)
    """Start of a segment to what the backup has of it."""
    _disk: OsDisk = attrs.field(factory=OsDisk, init=False)

    async def begin(self) -> None:
        """Write the tables, and make the segments.

        Raises:
            TargetError: The backup cannot be read.
            OSError: The disk of the directory refused.
        """
        self._disk.make_dirs(f"{self.root}/commitlog")
        for path, stored in self.objects.manifest.tables.items():
            data = None
            if ".." not in path.split("/"):
                data = await self._read(stored, is_table=True)
            if data is not None:
                self._write(f"{DIRECTORY}/{path}", data)
        self._write("abort", b"")  # queues, index and timers are made at the first start
        size = self.objects.manifest.segment_size
        for segment in self.objects.segments():
            pieces = await self._pieces_of(segment)
            at = pieces[0].start if pieces else 0 if segment is None else segment.start
            if pieces or segment is not None:
                self._pieces[at - at % size] = pieces
        for start in self._pieces:
            with closing(self._disk.open(self._path(start), create=True)) as file:
                file.truncate(size)

    def disk(self, call: Await) -> LazyDisk:
        """A disk on which the segments have their content, for plain code in another thread."""
        paths = {self._path(start): start for start in self._pieces}
        return LazyDisk(paths, lambda start, file: call(lambda: self._fill(start, file)))

    async def _fill(self, start: int, file: File) -> None:
        """Write what the backup has of a segment."""
        for piece in self._pieces[start]:
            data = await self._read(piece)
            if data is not None:
                file.write(piece.start - start, data)

    async def _pieces_of(self, segment: WholeSegment | None) -> list[Piece]:
        try:
            return list(await self.objects.pieces_of(segment))
        except BackupError as error:
            assert segment is not None
            self.bad.append(BadObject(segment.name, str(error)))
            return []

    async def _read(self, stored: Stored, *, is_table: bool = False) -> bytes | None:
        try:
            return await self.objects.read(stored)
        except BackupError as error:
            bad = BadObject(stored.name, str(error), is_table)
            if bad not in self.bad:
                self.bad.append(bad)
            return None

    def _path(self, start: int) -> str:
        return f"{self.root}/commitlog/{start:0{NAME_DIGITS}d}"

    def _write(self, path: str, data: bytes) -> None:
        place = f"{self.root}/{path}"
        self._disk.make_dirs(place.rpartition("/")[0])
        with closing(self._disk.open(place, create=True)) as file:
            file.write(0, data)


class LazyDisk(OsDisk):
    """A disk of which some files get their content when they are read.

    Args:
        places: Path of each of them to what ``fill`` knows it by.
        fill: Writes the content into the file.
    """

    def __init__(self, places: dict[str, int], fill: Callable[[int, File], None]) -> None:
        super().__init__()
        self._places = places
        self._fill = fill
        self._filled: str | None = None

    def open(  # type: ignore[override]
        self, path: str, *, create: bool = False, read_only: bool = False
    ) -> File:
        """Open a file; of a lazy one nothing is read yet."""
        if path not in self._places:
            return super().open(path, create=create, read_only=read_only)
        return _LazyFile(super().open(path), lambda: self._need(path))

    def _need(self, path: str) -> None:
        """See to it that a file has its content, and no other one."""
        if self._filled == path:
            return
        for one, is_wanted in ((self._filled, False), (path, True)):
            if one is None:
                continue
            with closing(super().open(one)) as file:
                size = file.size()
                file.truncate(0)
                file.truncate(size)
                if is_wanted:
                    self._fill(self._places[one], file)
        self._filled = path


class _LazyFile:
    """A file of ``LazyDisk``, read only."""

    def __init__(self, file: File, need: Callable[[], None]) -> None:
        self._file = file
        self._need = need
        self.path = file.path

    def size(self) -> int:
        return self._file.size()

    def read(self, offset: int, size: int) -> bytes:
        self._need()
        return self._file.read(offset, size)

    def next_data(self, offset: int) -> int:
        self._need()
        return self._file.next_data(offset)

    def map(self) -> mmap.mmap:
        self._need()
        return self._file.map()

    def write(self, offset: int, data: Bytes) -> None:
        raise OSError(f"{self.path}: at {offset}: expected only reads, found {len(data)} bytes")

    def allocate(self, size: int) -> None:
        raise OSError(f"{self.path}: to {size}: expected only reads")

    def truncate(self, size: int) -> None:
        raise OSError(f"{self.path}: to {size}: expected only reads")

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Nothing to do: the content is written just before it is read."""

    def close(self) -> None:
        self._file.close()
