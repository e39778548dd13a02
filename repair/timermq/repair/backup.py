"""The backup that a repair makes of files before it changes them: ``aside/<time>/`` in the store.

A file is kept once a repair, before its first change: by a rename where it is replaced, by a copy
where it is repaired in its place. A copy has its name only when it is whole and durable, so what
stands there can be put back.
"""

from __future__ import annotations

import datetime
from contextlib import closing

from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.store_files import BACKUP_DIRECTORY

from .segment_row import size_of

COPY_SIZE = 1 << 20
"""Bytes copied at a time; what is zero stays a hole of the file."""
SPARE_SIZE = 16 << 20
"""Bytes that must be left on the disk beside a copy."""

_ZEROS = bytes(COPY_SIZE)


class NoRoomError(StoreError):
    """The disk has no room for a copy; nothing was changed. The operator makes room."""


class Backup:
    """One repair's directory; made with the first file.

    Args:
        disk: The disk of the store.
        root: Its directory.
        now_ms: Time of the repair, epoch ms.
    """

    def __init__(self, disk: Disk, root: str, now_ms: int) -> None:
        moment = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        self.directory = f"{BACKUP_DIRECTORY}/{moment:%Y%m%dT%H%M%S}{now_ms % 1000:03d}Z"
        """Under the root."""
        self.kept: list[str] = []
        """Files that have a backup, by their old paths."""
        self._disk = disk
        self._root = root

    def move(self, path: str) -> None:
        """Move a file into the backup, durably; missing is fine.

        Args:
            path: Under the root.
        """
        if not self._disk.exists(f"{self._root}/{path}"):
            return
        target = self._target(path)
        if self._disk.exists(target):  # it was kept before a first change
            self._disk.remove(f"{self._root}/{path}")
        else:
            self._disk.rename(f"{self._root}/{path}", target)
            self._disk.sync_dir_now(target.rpartition("/")[0])
            self.kept.append(path)
        self._disk.sync_dir_now(f"{self._root}/{path}".rpartition("/")[0])

    def copy(self, path: str) -> None:
        """Keep a copy of a file that is to be changed in its place, durably; missing is fine.

        Raises:
            NoRoomError: The disk has no room for it.
        """
        source = f"{self._root}/{path}"
        if not self._disk.exists(source) or path in self.kept:
            return
        size, free = size_of(self._disk, source), self._disk.usage(self._root).free
        if free < size + SPARE_SIZE:
            raise NoRoomError(
                f"{source}: expected {size + SPARE_SIZE} bytes of room for a copy, found {free}"
            )
        target = self._target(path)
        self._copy(source, f"{target}.part", size)
        self._disk.rename(f"{target}.part", target)
        self._disk.sync_dir_now(target.rpartition("/")[0])
        self.kept.append(path)

    def _target(self, path: str) -> str:
        target = f"{self._root}/{self.directory}/{path}"
        for directory in self._disk.make_dirs(target.rpartition("/")[0]):
            self._disk.sync_dir_now(directory)
        return target

    def _copy(self, source: str, target: str, size: int) -> None:
        self._disk.remove(target)
        with (
            closing(self._disk.open(source, read_only=True)) as file,
            closing(self._disk.open(target, create=True)) as copy,
        ):
            copy.truncate(size)
            for at in range(0, size, COPY_SIZE):
                data = file.read(at, min(COPY_SIZE, size - at))
                if data != _ZEROS[: len(data)]:
                    copy.write(at, data)
            self._disk.sync_now(copy)
