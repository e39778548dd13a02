"""A ``Disk`` over another one whose operations fail as a plan says.

| fault | what the caller sees | what is on the disk below |
|---|---|---|
| sync | OSError, once | it counts as clean, and is lost at the next power cut |
| short write | OSError | the first ``written`` bytes |
| any other | OSError | nothing has changed |

Unlike the other two it does not remember a failed sync for its callers: as on Linux the next one
succeeds, and who believes that has lost what was to be synced. A read fails through ``read`` alone:
a view is the memory itself. Over a ``MemoryDisk`` a power cut shows what a failed sync has lost.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from typing import NoReturn

import attrs

from timermq.timerstore.disk import Bytes, Disk, DiskUsage, File, Lock
from timermq.timerstore.file_family import family_of

from .fault_plan import Access, Fault, Operation, Plan, no_faults
from .memory_disk import MemoryFile
from .memory_node import MemorySync


class FaultyFile:
    """An open file of a faulty disk."""

    def __init__(self, disk: FaultyDisk, inner: File) -> None:
        self.path = inner.path
        self.inner = inner
        """The file below."""
        self._disk = disk
        self._is_mapped = False

    def size(self) -> int:
        """Length of the file below, bytes; never fails by plan."""
        return self.inner.size()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on, or the error of a read."""
        self._disk.check(Operation.READ, self.path, offset, size)
        return self.inner.read(offset, size)

    def next_data(self, offset: int) -> int:
        """Offset of the next block of data."""
        return self.inner.next_data(offset)

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data``, or what a fault lets through."""
        fault = self._disk.fault(Operation.WRITE, self.path, offset, len(data))
        if fault is not None:
            self.inner.write(offset, memoryview(data)[: fault.written])
            raise _error(fault.error, self.path)
        self.inner.write(offset, data)

    def allocate(self, size: int) -> None:
        """Reserve blocks, or fail before anything is reserved."""
        self._disk.check(Operation.ALLOCATE, self.path, 0, size)
        self.inner.allocate(size)

    def truncate(self, size: int) -> None:
        """Set the length, or fail with the length as it was."""
        self._disk.check(Operation.TRUNCATE, self.path, 0, size)
        self.inner.truncate(size)

    def map(self) -> mmap.mmap:
        """The view of the file below; only the first call needs anything of the disk."""
        if not self._is_mapped:
            self._disk.check(Operation.MAP, self.path)
            self._is_mapped = True
        return self.inner.map()

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Pass the hint on to the file below; never fails by plan."""
        self.inner.will_need(ranges)

    def close(self) -> None:
        """Close the file below; never fails by plan."""
        self.inner.close()


class FaultyDisk:
    """A disk whose operations fail.

    Args:
        inner: The disk below: it does what does not fail.
        root: The store's directory, which tells the families of its files.
        plan: What fails; may be changed at any time.
    """

    def __init__(self, inner: Disk, root: str, plan: Plan = no_faults) -> None:
        self.inner = inner
        self.plan = plan
        self._root = root

    def fault(
        self, operation: Operation, path: str, offset: int = 0, size: int = 0
    ) -> Fault | None:
        """The fault planned for an operation, None when it goes well."""
        return self.plan(Access(operation, path, family_of(self._root, path), offset, size))

    def check(self, operation: Operation, path: str, offset: int = 0, size: int = 0) -> None:
        """Raise the error that the plan has for an operation, if any."""
        fault = self.fault(operation, path, offset, size)
        if fault is not None:
            raise _error(fault.error, path)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        """Open a file, or fail before it is created."""
        self.check(Operation.OPEN, path)
        return FaultyFile(self, self.inner.open(path, create=create, read_only=read_only))

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there; never fails by plan."""
        return self.inner.exists(path)

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        return self.inner.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; never fails by plan."""
        return self.inner.list_dir(path)

    def make_dirs(self, path: str) -> list[str]:
        """Create directories, or fail before any is made."""
        self.check(Operation.MAKE_DIRS, path)
        return self.inner.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        """Rename in one step; a fault leaves both names as they were."""
        self.check(Operation.RENAME, source)
        self.inner.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, or fail and leave it there."""
        self.check(Operation.REMOVE, path)
        self.inner.remove(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; fails as ``remove`` does."""
        self.check(Operation.REMOVE, path)
        self.inner.remove_dir(path)

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds; never fails by plan."""
        return self.inner.modified_ms(path)

    def usage(self, path: str) -> DiskUsage:
        """Space of the disk below."""
        return self.inner.usage(path)

    def boot_id(self, path: str) -> str:
        """Boot of the disk below."""
        return self.inner.boot_id(path)

    def lock(self, path: str) -> Lock:
        """Take a lock of the disk below."""
        return self.inner.lock(path)

    async def sync(self, *files: File) -> None:
        """Sync the files, up to the first that fails."""
        good, failing = self._begin_sync(files)
        await self.inner.sync(*good)
        if failing is not None:
            failing.end()

    async def sync_dir(self, path: str) -> None:
        """Sync the names in a directory."""
        self.check(Operation.SYNC_DIR, path)
        await self.inner.sync_dir(path)

    def sync_now(self, *files: File) -> None:
        """Sync as ``sync`` does, without trio."""
        good, failing = self._begin_sync(files)
        self.inner.sync_now(*good)
        if failing is not None:
            failing.end()

    def sync_dir_now(self, path: str) -> None:
        """Sync names as ``sync_dir`` does, without trio."""
        self.check(Operation.SYNC_DIR, path)
        self.inner.sync_dir_now(path)

    def _begin_sync(self, files: Iterable[File]) -> tuple[list[File], _FailingSync | None]:
        """The files below that are synced, and the one whose sync fails."""
        good: list[File] = []
        for file in files:
            assert isinstance(file, FaultyFile), f"{file.path}: a file of another disk"
            fault = self.fault(Operation.SYNC, file.path)
            if fault is not None:
                inner = file.inner
                held = inner.begin_sync() if isinstance(inner, MemoryFile) else None
                return good, _FailingSync(file.path, fault.error, held)
            good.append(file.inner)
        return good, None


@attrs.frozen
class _FailingSync:
    """A sync under way that will fail."""

    path: str
    error: int
    held: MemorySync | None
    """The writes that it covers, on a disk that can lose them."""

    def end(self) -> NoReturn:
        """Lose what it covers, and say so this once."""
        if self.held is not None:
            self.held.fail()
        raise _error(self.error, self.path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
