"""An archive in a directory, which driver and executors share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from timermq.timerstore.disk import Lock
from timermq.timerstore.os_disk import OsDisk


class DirectoryLake:
    """A directory, which the first file creates.

    Args:
        directory: Its absolute path.
    """

    def __init__(self, directory: str) -> None:
        self.place = directory
        self._root = Path(directory)

    def path(self, name: str) -> str:
        """The whole path of a file."""
        return f"{self.place}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names in a directory."""
        return sorted(path.name for path in (self._root / folder).glob("*"))

    def has_files(self, suffix: str) -> bool:
        """Whether one is somewhere below the directory."""
        return any(self._root.glob(f"**/*{suffix}"))

    def of_run(self, run: str, folder: str = "") -> list[str]:
        """Those that are unfinished too."""
        found = (
            (self._root / folder).glob(f"*-{run}-*") if folder else self._root.rglob(f"*-{run}-*")
        )
        return [path.relative_to(self._root).as_posix() for path in found]

    def get(self, name: str) -> bytes | None:
        """The bytes of a file."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        """The length of a file."""
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Write it beside its place, and rename it."""
        path = self._root / name
        self._make(path.parent)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(data)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write it beside its place, and link it."""
        path = self._root / name
        temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
        temporary.write_bytes(data)
        sync(temporary)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync(path.parent)
        return True

    def remove(self, name: str) -> None:
        """Remove a file, without a sync."""
        (self._root / name).unlink(missing_ok=True)

    def lock(self, name: str) -> Lock | None:
        """The lock of a file of that name."""
        self._make((self._root / name).parent)
        return OsDisk().lock(f"{self.place}/{name}")

    @contextmanager
    def written(self, name: str) -> Generator[BinaryIO]:
        """Under a name with a dot, which readers of Parquet pass over, until it is whole."""
        path = self._root / name
        unfinished = path.with_name(f".{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                yield file
        except BaseException:
            unfinished.unlink()
            raise
        sync(unfinished)
        unfinished.rename(path)

    def make_durable(self, names: Iterable[str]) -> None:
        """Sync the directories that they are in, up to the archive's."""
        paths = [self._root / name for name in names]
        for folder in {one for path in paths for one in path.parents}:
            if folder.is_relative_to(self._root):
                sync(folder)

    @staticmethod
    def _make(path: Path) -> None:
        """Make a directory and what is missing above it, durably."""
        missing = [one for one in (path, *path.parents) if not one.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for one in missing:
            sync(one.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
