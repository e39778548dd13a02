"""The ``Disk`` seam: every file operation of the store goes through these protocols.

Two implementations, one contract suite: ``OsDisk`` on the operating system, ``MemoryDisk`` for
tests and simulation, which can lose what was not synced. Paths are text with ``/``. Everything is
plain and fast but syncing, which blocks for milliseconds: services await ``sync``, tools call
``sync_now``.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterable
from typing import Protocol

import attrs

Bytes = bytes | bytearray | memoryview


def is_full(error: OSError) -> bool:
    """Whether an operation failed for want of room: it may succeed later, unlike after others."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_out_of_files(error: OSError) -> bool:
    """Whether nothing could be opened, for the process or the system has too much open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def is_for_a_while(error: OSError) -> bool:
    """Whether an operation did nothing for want of room or of files, and may succeed later.

    After any other error what is on the disk is not to be trusted; so it is after any of a sync.
    """
    return is_full(error) or is_out_of_files(error)


@attrs.frozen
class DiskUsage:
    """Space of the file system that holds a path, bytes."""

    total: int
    used: int
    free: int


class File(Protocol):
    """An open file of a disk."""

    path: str

    def size(self) -> int:
        """Length of the file in bytes."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end of the file."""
        ...

    def next_data(self, offset: int) -> int:
        """The first byte at or behind ``offset`` that may be no hole; the length without one.

        Holes read as zeros. Where the file system cannot tell, everything counts as data.
        """
        ...

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data`` at ``offset``; OSError if the disk does not take it whole."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, blocks reserved; OSError without room.

        The length changes in one step, before any block is taken: where the file system cannot
        reserve, blocks are written one after the other, and a process that ends in between leaves
        the whole length with a hole. The same call later takes the missing blocks. Without room the
        file is left with the length that it had.

        Not after ``map``, if the length changes.
        """
        ...

    def truncate(self, size: int) -> None:
        """Set the length; growth is zeros without blocks.

        Not after ``map``, if the length changes: a reader of the view behind the new end dies.
        """
        ...

    def map(self) -> mmap.mmap:
        """A read-only view of the whole file, shared by all callers and coherent with ``write``.

        The length must not change afterwards. ValueError for an empty file. It may take a further
        open file, which is given back with the view: an OSError when there is none.
        """
        ...

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce (offset, size) ranges that are read next; a hint."""
        ...

    def close(self) -> None:
        """Close the file; twice is fine.

        Views stay valid as long as somebody holds them, a sync under way comes to its end; anything
        else is an OSError from now on.
        """
        ...


class Lock(Protocol):
    """An exclusive lock on a file, held."""

    def release(self) -> None:
        """Give the lock up; twice is fine."""
        ...


class Disk(Protocol):
    """A file system, as the store uses it."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file; FileNotFoundError when it is missing and not to be created."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there; OSError where that cannot be seen."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there; OSError where that cannot be seen."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; none when it is missing, OSError if it cannot be read."""
        ...

    def make_dirs(self, path: str) -> list[str]:
        """Create a directory and those above it that are missing.

        Returns:
            The directories that got a new entry: the new ones last for certain once these are
            synced.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing ``target`` in one step; FileNotFoundError without a source."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; missing is fine."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; missing is fine."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds."""
        ...

    def usage(self, path: str) -> DiskUsage:
        """Space where ``path`` is or would be."""
        ...

    def boot_id(self, path: str) -> str:
        """Names the boot of the machine, and the file itself.

        While the answer for a file is the same, no power cut has taken anything that was written to
        its file system. Empty where that cannot be told, and for a file that is not there.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock on a file, creating it.

        Raises:
            StoreLockedError: Another process holds it, or another caller in this one.
        """
        ...

    async def sync(self, *files: File) -> None:
        """Make what was written to the files durable.

        A failed sync is never retried: the pages may count as clean although they are not on
        the disk. It raises OSError now and for every later sync of that file.

        Cancellation: waits for a sync that has begun.
        """
        ...

    async def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    def sync_now(self, *files: File) -> None:
        """``sync``, blocking: for start-up and tools."""
        ...

    def sync_dir_now(self, path: str) -> None:
        """``sync_dir``, blocking: for start-up and tools."""
        ...
