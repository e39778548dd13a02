"""A target in a directory: an object is a file, written beside its place and then renamed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager

from timermq.timerstore.disk import Disk

from .target import TargetError

UNFINISHED = ".part"
"""End of the name of a file that is being written; the next start of a shipper removes it."""


class DirectoryTarget:
    """Objects below a directory, which the first put creates.

    Args:
        disk: The disk of the directory.
        directory: Its path, without a slash at the end.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.place = directory
        self._disk = disk

    async def names(self) -> list[str]:
        """The names of all files, also of unfinished ones."""
        with self._errors():
            return list(self._below(""))

    async def get(self, name: str) -> bytes | None:
        """The bytes of a file; None when it is missing."""
        with self._errors():
            try:
                file = self._disk.open(f"{self.place}/{name}", read_only=True)
            except FileNotFoundError:
                return None
            with closing(file):
                return file.read(0, file.size())

    async def put(self, name: str, data: bytes) -> None:
        """Write a file, sync it, and give it its name."""
        path = f"{self.place}/{name}"
        part = path + UNFINISHED
        with self._errors():
            for directory in self._disk.make_dirs(path.rpartition("/")[0]):
                await self._disk.sync_dir(directory)
            self._disk.remove(part)
            try:
                with closing(self._disk.open(part, create=True)) as file:
                    file.write(0, data)
                    await self._disk.sync(file)
                self._disk.rename(part, path)
            except OSError:
                self._disk.remove(part)  # a full disk gets its room back
                raise
            await self._disk.sync_dir(path.rpartition("/")[0])

    async def delete(self, name: str) -> None:
        """Remove a file; after a power cut it may be there again, as garbage."""
        with self._errors():
            self._disk.remove(f"{self.place}/{name}")

    def _below(self, under: str) -> Generator[str]:
        for name in self._disk.list_dir(f"{self.place}/{under}".rstrip("/")):
            if self._disk.is_dir(f"{self.place}/{under}{name}"):
                yield from self._below(f"{under}{name}/")
            else:
                yield under + name

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            path = error.filename or self.place
            found = error.strerror or str(error)
            raise TargetError(
                f"{path}: expected a directory that takes a backup, found: {found}"
            ) from error
