"""The ``Lake`` seam: the place of an archive, a directory or a prefix of a bucket.

What an archive needs of it: a file under a name of its own is whole once it has the name, and of
two that are put under one new name at a time one is refused. On a disk that is a rename and a link,
in an object store an upload that is completed and a put on the condition that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from timermq.timerstore.disk import Lock


class Lake(Protocol):
    """Files by their names below one place, with ``/`` between the parts."""

    place: str
    """As processes hand it on."""

    def path(self, name: str) -> str:
        """A file as readers of Parquet take it."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted, without the folder's."""
        ...

    def has_files(self, suffix: str) -> bool:
        """Whether any file has a name that ends so."""
        ...

    def of_run(self, run: str, folder: str = "") -> list[str]:
        """The whole names of files in a folder, or below it, that have the name of a run."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes of a file; None when it is missing."""
        ...

    def size(self, name: str) -> int | None:
        """The length of a file in bytes; None when it is missing."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a file in one step, durably."""
        ...

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file in one step, durably, unless there is one; whether it was written."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; missing is fine."""
        ...

    def lock(self, name: str) -> Lock | None:
        """Take the lock that a run has; None where there is none to be had.

        Raises:
            StoreLockedError: Another run has it.
        """
        ...

    def written(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A new file to be written in a block, which has its name, durably, when the block ends.

        An error in the block leaves no file.
        """
        ...

    def make_durable(self, names: Iterable[str]) -> None:
        """Let files that were written by other processes keep their names."""
        ...
