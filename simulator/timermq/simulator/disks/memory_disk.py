"""The ``Disk`` in memory, for tests and simulation: it can lose what was not synced.

Contents are anonymous mappings, so that ``map`` gives the same type as on the real disk. What was
written and what is durable are two things:

| event | contents | names | handles, locks |
|---|---|---|---|
| ``process_kill`` | all that was written (the page cache survives) | all | gone |
| ``power_cut`` | as of the last sync of the file | as of the last sync of the directory | gone |
| ``power_cut(draw)`` | each unsynced sector old or new | the first so many changes | gone |

A power cut begins another boot.

It is as strict as a real disk may be: a sync covers what was written before it was called, and
what a failed sync held counts as clean but is not durable. More lenient it is in one thing: a new
directory is durable at once.

There are no threads: under trio's autojump clock a worker thread counts as idle.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterable
from random import Random

import trio

from timermq.timerstore.disk import Bytes, DiskUsage, File
from timermq.timerstore.errors import StoreLockedError

from .memory_journal import MemoryJournal, parent
from .memory_node import BLOCK_SIZE, MemoryNode, MemorySync, block_count


class MemoryFile:
    """An open file in memory."""

    def __init__(self, disk: MemoryDisk, path: str, node: MemoryNode, *, read_only: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._read_only = read_only
        self._process = disk.process
        self._has_view = False
        self._is_closed = False
        self._failure: OSError | None = None

    def size(self) -> int:
        """Length of the file, bytes; OSError once it is closed."""
        return self.open_node().size

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end of the file."""
        node = self.open_node()
        return b"" if node.data is None else node.data[offset : min(offset + size, node.size)]

    def next_data(self, offset: int) -> int:
        """Offset of the next block of data."""
        node = self.open_node()
        first = offset // BLOCK_SIZE
        found = min((block for block in node.blocks if block >= first), default=None)
        end = node.size if found is None else min(found * BLOCK_SIZE, node.size)
        return max(end, offset)

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data``; ENOSPC before anything is written when blocks are missing."""
        node = self._writable_node()
        if not len(data):
            return
        end = offset + len(data)
        blocks = range(offset // BLOCK_SIZE, block_count(end))
        self._disk.take_blocks(node, blocks, self.path)
        if end > node.size:
            self._resize(node, end)
        node.keep_durable(blocks)
        assert node.data is not None
        node.data[offset:end] = bytes(data)
        node.modified_ms = self._disk.now_ms()

    def allocate(self, size: int) -> None:
        """Set the length, then reserve blocks, all together or one after the other."""
        node = self._writable_node()
        found, missing = node.size, set(range(block_count(size))) - node.blocks
        if size > found:
            self._resize(node, size)
        try:
            self._disk.reserve_blocks(node, missing, self.path)
        except OSError:
            if size > found:
                self.truncate(found)
            raise

    def truncate(self, size: int) -> None:
        """Set the length; what is cut off is gone."""
        node = self._writable_node()
        if size != node.size:
            self._resize(node, size)
            self._disk.free_blocks(
                node, {block for block in node.blocks if block * BLOCK_SIZE >= size}
            )

    def map(self) -> mmap.mmap:
        """The contents themselves, which later writes change; ValueError for an empty file."""
        node = self.open_node()
        if node.data is None:
            raise ValueError(f"{self.path}: an empty file has no view")
        if not self._has_view:
            self._has_view = True
            node.view_count += 1
        return node.data

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Everything is in memory already."""
        self.open_node()
        for offset, size in ranges:
            assert offset >= 0 <= size

    def close(self) -> None:
        """Close the handle; the contents live on the disk."""
        if not self._is_closed and self._has_view and self._process == self._disk.process:
            self._node.view_count -= 1
        self._is_closed = True

    def begin_sync(self) -> MemorySync:
        """Note what a sync covers, for the disk."""
        return MemorySync.begin(self.open_node())

    def end_sync(self, sync: MemorySync) -> None:
        """Let a sync succeed or fail, for the disk; a failure is remembered and final."""
        if self._process != self._disk.process:
            raise OSError(errno.EBADF, "the process was killed", self.path)
        if self._failure is None and self._disk.fail_syncs_of(self.path):
            self._failure = OSError(errno.EIO, "sync failed", self.path)
            sync.fail()
            raise self._failure
        if self._failure is not None:
            raise OSError(errno.EIO, "an earlier sync failed", self.path)
        sync.finish()
        if sync.size == sync.node.size:
            self._disk.journal.sync_size(sync.node)

    def open_node(self) -> MemoryNode:
        """The file, while the handle is open and its process lives."""
        if self._is_closed or self._process != self._disk.process:
            raise OSError(errno.EBADF, "closed", self.path)
        return self._node

    def _writable_node(self) -> MemoryNode:
        if self._read_only:
            raise OSError(errno.EBADF, "opened read only", self.path)
        return self.open_node()

    def _resize(self, node: MemoryNode, size: int) -> None:
        assert not node.view_count, f"{self.path}: its length changes under a view"
        node.resize(size)
        self._disk.journal.note_size(node)
        node.modified_ms = self._disk.now_ms()


class MemoryLock:
    """A lock of a memory disk."""

    def __init__(self, locks: dict[str, MemoryLock], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """Give it up; nothing happens when the disk has taken it away meanwhile."""
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


class MemoryDisk:
    """A disk of files in memory.

    Args:
        now_ms: Where modification times come from.
        total: Size of the disk, bytes; writing beyond it raises ENOSPC. May be changed later.
    """

    def __init__(self, *, now_ms: Callable[[], int] = lambda: 0, total: int = 1 << 50) -> None:
        self.now_ms = now_ms
        self.total = total
        self.fail_syncs_of: Callable[[str], bool] = lambda _: False
        """Paths whose syncs fail with EIO; to be set by tests."""
        self.sync_seconds: Callable[[], float] = lambda: 0.0
        """How long the next sync takes, by trio's clock; to be set by tests."""
        self.reserves_blocks = True
        """False: as a file system without ``fallocate``, where blocks are written one after the
        other; to be set by tests."""
        self.on_reserving: Callable[[str], None] = lambda _: None
        """Called with the path before each block that is reserved alone: it may kill the process
        and raise what ends it; to be set by tests."""
        self.process = 0
        """Counts kills: handles of an earlier process are closed."""
        self.power_cuts = 0
        """Counts them; to be changed by tests that write files as a power cut left them."""
        self.journal = MemoryJournal()
        """Names and lengths, for its files."""
        self._dirs: set[str] = {"", "/"}
        self._locks: dict[str, MemoryLock] = {}
        self._blocks_used = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        """Open a file, creating it if asked."""
        node = self.journal.names.get(path)
        if node is None:
            if not create or parent(path) not in self._dirs:
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
            if path in self._dirs:
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            node = MemoryNode(modified_ms=self.now_ms())
            self._change_names({path: node})
        return MemoryFile(self, path, node, read_only=read_only)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return path in self.journal.names or path in self._dirs

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        return path in self._dirs

    def list_dir(self, path: str) -> list[str]:
        """Sorted names; none when the directory is missing."""
        head = path.rstrip("/") + "/"
        entries = (*self.journal.names, *self._dirs)
        return sorted({e[len(head) :].split("/")[0] for e in entries if e.startswith(head)} - {""})

    def make_dirs(self, path: str) -> list[str]:
        """Create directories; they are durable at once, their contents are not."""
        changed: list[str] = []
        while path not in self._dirs:
            self._dirs.add(path)
            path = parent(path)
            changed.append(path or "/")
        return changed

    def rename(self, source: str, target: str) -> None:
        """Rename in one step; FileNotFoundError without a source."""
        node = self.journal.names.get(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", source)
        if source != target:
            self._change_names({source: None, target: node})

    def remove(self, path: str) -> None:
        """Remove a file; missing is fine."""
        if path in self.journal.names:
            self._change_names({path: None})

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; OSError while it holds anything."""
        if self.list_dir(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self._dirs.discard(path)

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds."""
        node = self.journal.names.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return node.modified_ms

    def usage(self, path: str) -> DiskUsage:
        """Space of the whole disk."""
        del path
        used = self._blocks_used * BLOCK_SIZE
        return DiskUsage(self.total, used, max(self.total - used, 0))

    def boot_id(self, path: str) -> str:
        """The count of power cuts; a file copied to another such disk is of the same boot."""
        return f"boot {self.power_cuts}" if path in self.journal.names else ""

    def lock(self, path: str) -> MemoryLock:
        """Take the lock, creating its file; StoreLockedError while it is held."""
        if path in self._locks:
            raise StoreLockedError(f"{path}: held by another running broker")
        self.open(path, create=True).close()
        lock = self._locks[path] = MemoryLock(self._locks, path)
        return lock

    async def sync(self, *files: File) -> None:
        """Make durable what was written before the call, at the end of the time that it takes."""
        await trio.lowlevel.checkpoint_if_cancelled()
        syncs = _begin_syncs(files)
        await self._wait_for_sync()
        _end_syncs(syncs)

    async def sync_dir(self, path: str) -> None:
        """The names are durable at the end of the time that it takes."""
        await trio.lowlevel.checkpoint_if_cancelled()
        process = self.process
        await self._wait_for_sync()
        if process != self.process:
            raise OSError(errno.EBADF, "the process was killed", path)
        self.sync_dir_now(path)

    async def _wait_for_sync(self) -> None:
        """A task that waits for a sync that has begun cannot leave before its end."""
        with trio.CancelScope(shield=True):
            await trio.sleep(self.sync_seconds())

    def sync_now(self, *files: File) -> None:
        """Make contents durable at once; no time passes."""
        _end_syncs(_begin_syncs(files))

    def sync_dir_now(self, path: str) -> None:
        """Names in the directory are durable."""
        if path not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        self.journal.sync_names(path)

    def process_kill(self) -> None:
        """The process is gone: its handles and locks with it, everything written stays."""
        self.process += 1
        self._locks.clear()
        for node in self.journal.names.values():
            node.view_count = 0

    def power_cut(self, draw: Random | None = None) -> None:
        """Everything not synced is gone.

        Args:
            draw: Decides what of it had reached the disk by itself, and so may be torn; None:
                nothing had.
        """
        self.process_kill()
        self.power_cuts += 1
        self.journal.cut(draw)
        self._blocks_used = 0
        for path, node in self.journal.names.items():
            self.make_dirs(parent(path))
            node.revert(draw)
            node.is_linked, node.view_count = True, 0
            node.blocks = {block for block in node.blocks if block * BLOCK_SIZE < node.size}
            self._blocks_used += len(node.blocks)

    def rot(self, path: str, offset: int, data: bytes) -> None:
        """Change bytes of a file at rest: its times stay, and it is durable as it is written."""
        node = self.journal.names[path]
        assert node.data is not None, f"{path}: an empty file holds nothing"
        node.data[offset : offset + len(data)] = data
        for at, byte in enumerate(data, start=offset):
            block, place = divmod(at, BLOCK_SIZE)
            for kept in (node.unsynced, node.lost):
                if place < len(kept.get(block, b"")):
                    held = kept[block]
                    kept[block] = held[:place] + bytes([byte]) + held[place + 1 :]

    def take_blocks(self, node: MemoryNode, blocks: Iterable[int], path: str) -> None:
        """Let a file take up blocks; ENOSPC when the disk has not enough. For its files."""
        fresh = set(blocks) - node.blocks
        if fresh and (self._blocks_used + len(fresh)) * BLOCK_SIZE > self.total:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        node.blocks |= fresh
        self._blocks_used += len(fresh) if node.is_linked else 0

    def reserve_blocks(self, node: MemoryNode, blocks: set[int], path: str) -> None:
        """Let a file take up blocks before it is written; ENOSPC without room. For its files."""
        if self.reserves_blocks:
            self.take_blocks(node, blocks, path)
            return
        for block in sorted(blocks):
            self.on_reserving(path)
            self.take_blocks(node, (block,), path)

    def free_blocks(self, node: MemoryNode, blocks: set[int]) -> None:
        """Take blocks of a file back. For its files."""
        node.blocks -= blocks
        self._blocks_used -= len(blocks) if node.is_linked else 0

    def _change_names(self, names: dict[str, MemoryNode | None]) -> None:
        for node in self.journal.change_names(names):
            if node.is_linked:
                node.is_linked = False
                self._blocks_used -= len(node.blocks)


def _begin_syncs(files: Iterable[File]) -> list[tuple[MemoryFile, MemorySync]]:
    syncs: list[tuple[MemoryFile, MemorySync]] = []
    for file in files:
        assert isinstance(file, MemoryFile), f"{file.path}: a file of another disk"
        syncs.append((file, file.begin_sync()))
    return syncs


def _end_syncs(syncs: list[tuple[MemoryFile, MemorySync]]) -> None:
    for file, sync in syncs:
        file.end_sync(sync)
