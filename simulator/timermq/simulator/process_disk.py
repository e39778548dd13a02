"""The disk as one process of the simulation has it: it ends at a chosen operation.

Operations that change something are counted: writes, lengths, names, syncs. Reads leave nothing
behind, so an end at a read is one before the next change. Once the process has ended, nothing of it
reaches the disk any more, whatever its tasks still do while they are unwound.
"""

from __future__ import annotations

import enum
import errno
import mmap
from collections.abc import Callable

from timermq.timerstore.disk import Bytes, Disk, DiskUsage, File, Lock

BLOCKS_WRITTEN = 2
"""Of a reservation, where blocks are written one by one and the process ends in its middle."""


class Place(enum.Enum):
    """The place in an operation at which the process ends."""

    BEFORE = "before"
    MIDDLE = "middle"
    """A write has brought its first part (``ProcessDisk.part``), a reservation the length without
    the blocks, or the first blocks one by one; other operations have done nothing."""
    AFTER = "after"


class ProcessFile:
    """An open file of the process."""

    def __init__(self, disk: ProcessDisk, file: File) -> None:
        self.path = file.path
        self.inner = file
        self._disk = disk

    def size(self) -> int:
        """Length of the file below, bytes."""
        return self.inner.size()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on; a read is not counted."""
        return self.inner.read(offset, size)

    def next_data(self, offset: int) -> int:
        """Offset of the next block of data."""
        return self.inner.next_data(offset)

    def write(self, offset: int, data: Bytes) -> None:
        """Write, unless the process ends before it or within."""
        if self._disk.begin() is Place.MIDDLE:
            self.inner.write(offset, bytes(data)[: int(len(data) * self._disk.part)])
            self._disk.crash_now()
        self.inner.write(offset, data)
        self._disk.end()

    def allocate(self, size: int) -> None:
        """Reserve blocks, unless the process ends before it or within."""
        if self._disk.begin() is Place.MIDDLE:
            if self._disk.reserves_blocks:
                if self.inner.size() < size:
                    self.inner.truncate(size)
            else:
                self._disk.end_at_block(BLOCKS_WRITTEN)
                self.inner.allocate(size)
            self._disk.crash_now()
        self.inner.allocate(size)
        self._disk.end()

    def truncate(self, size: int) -> None:
        """Set the length, unless the process ends before it."""
        self._disk.begin_whole()
        self.inner.truncate(size)
        self._disk.end()

    def map(self) -> mmap.mmap:
        """A view of the whole file."""
        return self.inner.map()

    def will_need(self, ranges: object) -> None:
        """A hint, of no use in memory."""

    def close(self) -> None:
        """Close the file below; not counted as a change."""
        self.inner.close()


class ProcessDisk:
    """The disk of one process.

    Args:
        disk: What outlives the process.
        before_removal: Told of the disk and the path of a file that is about to be removed.
        reserves_blocks: Whether the file system can; else it calls ``reserving`` for each block.
    """

    def __init__(
        self,
        disk: Disk,
        before_removal: Callable[[Disk, str], None] = lambda _disk, _path: None,
        *,
        reserves_blocks: bool = True,
    ) -> None:
        self.reserves_blocks = reserves_blocks
        self._blocks_left = -1
        """Blocks until the end of the process, while one file is reserved; -1: it does not end."""
        self._disk = disk
        self._before_removal = before_removal
        self.is_dead = False
        self.part = 0.5
        """How much of a write is done when the process ends within it: 0 nothing, 1 all."""
        self._crash: Callable[[], None] | None = None
        self._place = Place.BEFORE
        self._left = 0
        self._rot: Callable[[], None] | None = None
        self._rot_left = 0
        self.operations = 0
        """Changes so far."""

    def crash_at(self, count: int, place: Place, crash: Callable[[], None]) -> None:
        """End the process at the operation that is ``count`` further on (1: the next one).

        Args:
            count: 1 or more.
            place: Where in the operation.
            crash: Kills the process or cuts the power.
        """
        self._left, self._place, self._crash = count, place, crash

    def rot_at(self, count: int, rot: Callable[[], None]) -> None:
        """Damage files right before the operation that is ``count`` further on (1: the next one).

        Args:
            count: 1 or more.
            rot: Does it; called once.
        """
        self._rot_left, self._rot = count, rot

    def rot_now(self) -> None:
        """Damage files, unless that has happened or the process is over."""
        rot, self._rot = self._rot, None
        if rot is not None and not self.is_dead:
            rot()

    def begin(self) -> Place | None:
        """An operation begins; says where in it the process is to end. For its files."""
        self._check()
        self.operations += 1
        self._rot_left -= 1
        if self._rot_left == 0:
            self.rot_now()
        if self._crash is None:
            return None
        self._left -= 1
        if self._left > 0:
            return None
        if self._place is Place.BEFORE:
            self.crash_now()
        return self._place

    def end_at_block(self, count: int) -> None:
        """End the process behind so many blocks that are reserved one by one. For its files."""
        self._blocks_left = count

    def reserving(self, _: str) -> None:
        """A block is about to be reserved alone. For the disk below."""
        if self._blocks_left == 0:
            self.crash_now()
        self._blocks_left -= self._blocks_left > 0

    def begin_whole(self) -> None:
        """An operation begins that is done as a whole or not at all. For its files."""
        if self.begin() is Place.MIDDLE:
            self.crash_now()

    def end(self) -> None:
        """An operation is done. For its files."""
        if self._crash is not None and self._left <= 0:
            self.crash_now()

    def crash_now(self) -> None:
        """End the process; raises what every operation of it meets from now on."""
        crash, self._crash = self._crash, None
        if crash is not None:
            crash()
        self.die()
        self._check()

    def die(self) -> None:
        """The process has ended: nothing of it reaches the disk from now on."""
        self.is_dead = True

    def opened(self, file: File) -> ProcessFile:
        """A file of the process, of one of the disk."""
        return ProcessFile(self, file)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> ProcessFile:
        """Open a file; creating one is a change that is counted."""
        if create and not self._disk.exists(path):
            self.begin_whole()
            file = self._disk.open(path, create=create, read_only=read_only)
            self.end()
        else:
            self._check()
            file = self._disk.open(path, create=create, read_only=read_only)
        return self.opened(file)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        return self._disk.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted; none when it is missing."""
        return self._disk.list_dir(path)

    def make_dirs(self, path: str) -> list[str]:
        """Create directories; not counted as a change."""
        self._check()
        return self._disk.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        """Rename in one step, unless the process ends before it."""
        self.begin_whole()
        self._disk.rename(source, target)
        self.end()

    def remove(self, path: str) -> None:
        """Remove a file, of which ``before_removal`` is told first."""
        self.begin_whole()
        self._before_removal(self._disk, path)
        self._disk.remove(path)
        self.end()

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory, unless the process ends before it."""
        self.begin_whole()
        self._disk.remove_dir(path)
        self.end()

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds."""
        return self._disk.modified_ms(path)

    def usage(self, path: str) -> DiskUsage:
        """Space of the whole disk."""
        return self._disk.usage(path)

    def boot_id(self, path: str) -> str:
        """Names the boot of the disk below."""
        return self._disk.boot_id(path)

    def lock(self, path: str) -> Lock:
        """Take the lock; StoreLockedError while another holds it."""
        self._check()
        return self._disk.lock(path)

    async def sync(self, *files: File) -> None:
        """Make contents durable, unless the process ends before it."""
        self.begin_whole()
        await self._disk.sync(*map(_inner, files))
        self.end()

    async def sync_dir(self, path: str) -> None:
        """Make names durable, unless the process ends before it."""
        self.begin_whole()
        await self._disk.sync_dir(path)
        self.end()

    def sync_now(self, *files: File) -> None:
        """Sync as ``sync`` does, without trio."""
        self.begin_whole()
        self._disk.sync_now(*map(_inner, files))
        self.end()

    def sync_dir_now(self, path: str) -> None:
        """Sync names as ``sync_dir`` does, without trio."""
        self.begin_whole()
        self._disk.sync_dir_now(path)
        self.end()

    def _check(self) -> None:
        if self.is_dead:
            raise OSError(errno.EBADF, "the process was killed")


def _inner(file: File) -> File:
    assert isinstance(file, ProcessFile), f"{file.path}: a file of another disk"
    return file.inner
