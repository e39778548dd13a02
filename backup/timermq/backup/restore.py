"""Makes a store of a backup: the commit log and the tables, each object compared with its digest.

All else is derived from the log: as after a kill, the first start makes queues, index, timer log
and wheel. Until the log and the tables are written, a file in ``commitlog/`` that is no segment
keeps brokers from serving the directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import attrs

from timermq.timerstore.disk import Disk
from timermq.timerstore.mapped_file_queue import NAME_DIGITS

from .backup_objects import BackupObjects
from .manifest import Piece
from .tables import DIRECTORY
from .target import BackupError

UNFINISHED = "restore-is-not-finished"
"""Name of the file in ``commitlog/`` while the store is not whole."""

Progress = Callable[[int, int], None]
"""Is told how many bytes of the log are written, and how many there are."""


@attrs.define(eq=False, kw_only=True)
class Restore:
    """One restore; ``run`` does it.

    Args:
        objects: Of the backup.
        disk: Where the store is to be.
        root: Its directory; missing, or empty.
        progress: Told after each piece.
    """

    objects: BackupObjects
    disk: Disk
    root: str
    progress: Progress | None = None

    async def run(self) -> None:
        """Write the store, durably.

        Raises:
            BackupError: The directory is not empty, or an object is missing or damaged.
            TargetError: The target cannot be read.
            OSError: The disk refused.

        Cancellation: as after an error: the directory holds no store, and is to be removed.
        """
        found = self.disk.list_dir(self.root)
        if found:
            raise BackupError(
                f"{self.root}: expected an empty directory, found {found[0]}: name another one"
            )
        mark = f"{self.root}/commitlog/{UNFINISHED}"
        for directory in self.disk.make_dirs(f"{self.root}/commitlog"):
            self.disk.sync_dir_now(directory)
        with closing(self.disk.open(mark, create=True)) as file:
            self.disk.sync_now(file)
        await self._write_tables()
        await self._write_log()
        self.disk.sync_dir_now(f"{self.root}/commitlog")
        self.disk.remove(mark)
        self.disk.sync_dir_now(f"{self.root}/commitlog")

    async def _write_tables(self) -> None:
        for path, stored in self.objects.manifest.tables.items():
            place = f"{self.root}/{DIRECTORY}/{path}"
            if ".." in path.split("/"):
                raise BackupError(f"{self.objects.target.place}: table {path}: expected no ..")
            for directory in self.disk.make_dirs(place.rpartition("/")[0]):
                self.disk.sync_dir_now(directory)
            with closing(self.disk.open(place, create=True)) as file:
                file.write(0, await self.objects.read(stored))
                self.disk.sync_now(file)
            self.disk.sync_dir_now(place.rpartition("/")[0])

    async def _write_log(self) -> None:
        at = self.objects.manifest.start
        for segment in self.objects.segments():
            pieces = await self.objects.pieces_of(segment)
            if pieces:
                await self._write_segment(at, pieces)
                at = pieces[-1].end

    async def _write_segment(self, at: int, pieces: Sequence[Piece]) -> None:
        """Write a segment of which the backup has all pieces from a position on."""
        manifest = self.objects.manifest
        start = at - at % manifest.segment_size
        path = f"{self.root}/commitlog/{start:0{NAME_DIGITS}d}"
        with closing(self.disk.open(path, create=True)) as file:
            file.allocate(manifest.segment_size)
            for piece in pieces:
                if piece.start != at:
                    raise BackupError(
                        f"{self.objects.target.place}: {piece.name}: expected the log from {at} "
                        f"on, found {piece.start}"
                    )
                file.write(at - start, await self.objects.read(piece))
                at = piece.end
                if self.progress is not None:
                    self.progress(at - manifest.start, manifest.end - manifest.start)
            self.disk.sync_now(file)
