"""Files of the operator's that are read again when they change: rules, certificates.

A change is seen by time, size and place of a file on its disk, which a rename changes as well; what
is half written when it is read has another time when it is whole, and is read once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

FILES_MAX = 256
"""Files of one directory of rules."""
PASSWORD_SIZE_MAX = 1024
"""Bytes of a file with a password."""

Stamp = tuple[tuple[str, int, int, int, int], ...]
"""Path, size, i-node, time of the content and of the entry of each file; nanoseconds."""


def stamp_of(paths: Iterable[str]) -> Stamp:
    """The state of some files; one that cannot be looked at has numbers of -1."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: str) -> tuple[str, int, int, int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return path, -1, -1, -1, -1
    return path, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def read_bounded(path: str, size_max: int) -> bytes:
    """At most ``size_max`` bytes of a file, and one more by which a larger one is known.

    Raises:
        OSError: It cannot be read.
    """
    with Path(path).open("rb") as file:
        return file.read(size_max + 1)


def read_password(path: str) -> bytes:
    """The password in a file, without the line's end.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too large for a password.
    """
    password = read_bounded(path, PASSWORD_SIZE_MAX).strip(b"\r\n")
    if len(password) > PASSWORD_SIZE_MAX:
        raise ValueError(f"{path}: expected a password of at most {PASSWORD_SIZE_MAX} bytes")
    return password


class AclFiles:
    """The files of rules: ``plain_acl.yml``, and every ``.yml`` and ``.yaml`` under ``acl/``.

    Args:
        path: Of ``plain_acl.yml``; the directory ``acl`` is looked for beside it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = Path(path).parent / "acl"

    def paths(self) -> list[str]:
        """The files that are there, ``plain_acl.yml`` always.

        Raises:
            OSError: A directory cannot be looked through.
        """
        found = [str(path) for path in self._found() if path.suffix in (".yml", ".yaml")]
        return [self._path, *sorted(one for one in found if one != self._path)]

    def _found(self) -> Iterator[Path]:
        """The entries of ``acl``; directories too: one that is named like a file is an error."""
        for place, directories, files in os.walk(self._directory, onerror=_pass_over):
            # Mounted secrets stand in hidden directories, and are shown by links.
            directories[:] = [name for name in directories if not name.startswith(".")]
            for name in (*directories, *files):
                if not name.startswith("."):
                    yield Path(place, name)

    def stamp(self) -> Stamp:
        """Their state now.

        Raises:
            OSError: A directory cannot be looked through.
        """
        return stamp_of(self.paths())

    def read(self, size_max: int) -> dict[str, bytes]:
        """Path to content.

        Raises:
            OSError: One of them cannot be read, or there are too many.
        """
        paths = self.paths()
        if len(paths) > FILES_MAX:
            raise OSError(f"{self._directory}: expected at most {FILES_MAX} files, found more")
        return {path: read_bounded(path, size_max) for path in paths}


def _pass_over(error: OSError) -> None:
    """Go on without a directory that is not there, or not ours to look into.

    It may have been there a moment ago: mounted secrets are changed while they are looked through.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        raise error
