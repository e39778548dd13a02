"""The reading half of the ``Disk`` seam over objects, for what looks at a store through it."""

from __future__ import annotations

from typing import cast

import pyarrow.fs as arrow_fs

from timermq.timerstore.disk import Disk
from timermq.timerstore.os_disk import OsDisk

from .places import ObjectFile, is_object, system_of, unreadable


def disk_of(path: str) -> Disk:
    """The disk of a path, for readers; of an object store it has what they call."""
    return cast("Disk", ObjectDisk()) if is_object(path) else OsDisk()


class ObjectDisk:
    """The reading half of ``Disk`` over objects; directories are the beginnings of names."""

    def open(self, path: str, *, create: bool = False, read_only: bool = True) -> ObjectOfDisk:
        """An object; it is read only."""
        assert not create
        assert read_only
        return ObjectOfDisk(path, ObjectFile(path))

    def exists(self, path: str) -> bool:
        """Whether an object is there, or one below the path."""
        return self._info(path).type != arrow_fs.FileType.NotFound

    def is_dir(self, path: str) -> bool:
        """Whether there is an object below the path."""
        return self._info(path).type == arrow_fs.FileType.Directory

    def list_dir(self, path: str) -> list[str]:
        """Names below a path up to the next slash, sorted; none when there are none."""
        system, key = system_of(path)
        selector = arrow_fs.FileSelector(key, allow_not_found=True, recursive=False)
        try:
            return sorted(one.base_name for one in system.get_file_info(selector))
        except OSError as error:
            raise unreadable(path, error) from error

    @staticmethod
    def _info(path: str) -> arrow_fs.FileInfo:
        system, key = system_of(path)
        try:
            return system.get_file_info(key)
        except OSError as error:
            raise unreadable(path, error) from error


class ObjectOfDisk:
    """An object as readers of a ``Disk`` take a file."""

    def __init__(self, path: str, reader: ObjectFile) -> None:
        self.path = path
        self._reader = reader

    def size(self) -> int:
        """Length of the file in bytes."""
        return self._reader.size()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end."""
        return self._reader.read_at(size, offset)

    def close(self) -> None:
        """Let go of the object."""
        self._reader.close()
