"""The ``Disk`` of the operating system (Linux).

``fdatasync`` runs in worker threads, one call for all files of a batch: it lets the interpreter go
on, while ``mmap.flush`` would hold its lock for the whole time, as ``mmap.madvise`` does, which is
therefore called once, when a file is mapped.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import stat
import struct
from collections.abc import Iterable

import structlog
import trio

from .disk import Bytes, DiskUsage, File, is_full, is_out_of_files
from .errors import StoreLockedError

log = structlog.get_logger("timermq.timerstore.os_disk")

SYNC_THREADS = 2
"""Syncs that run at a time: one of the commit log, one of everything else."""
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
"""Of what is made: the broker's user alone reads messages."""

FILES_PAUSE = 0.1
"""Seconds between two tries to open a directory while too many files are open."""

ZEROS_SIZE = 1 << 16
"""Bytes looked at, and written, at a time where the file system cannot reserve blocks."""

STAT_BLOCK_SIZE = 512
"""Unit of ``st_blocks``, bytes, whatever the file system."""

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
"""The file in which Linux names its boot."""

LOCK_FIRST_BYTE = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
"""``struct flock`` of 64-bit Linux: an exclusive lock on byte 0, as Java takes it."""


def is_locked(path: str) -> bool:
    """Whether somebody holds the lock of ``OsDisk.lock``; it is not taken, not even for a moment.

    Source: Linux ``fcntl(2)``, F_OFD_GETLK.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, LOCK_FIRST_BYTE)
    finally:
        os.close(descriptor)
    return found[:2] != struct.pack("h", fcntl.F_UNLCK)


class OsFile:
    """An open file of the operating system."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._failure: OSError | None = None
        """The sync that failed; every later one fails with it."""
        self._is_resized = False
        """The length changed since the last sync: the inode has to be written too."""
        self._map: mmap.mmap | None = None
        self._holds = 0
        """Syncs under way: the descriptor stays open until they are done."""
        self._is_closed = False

    def size(self) -> int:
        """Length of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on; fewer at the end of the file."""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise _named(error, f"reading {size} bytes at {offset}", self.path) from error

    def next_data(self, offset: int) -> int:
        """Offset of the next block; the position of the descriptor, which this moves, is not used.

        Source: Linux ``lseek(2)``, SEEK_DATA.
        """
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return max(self.size(), offset)
            if error.errno == errno.EINVAL:
                return offset
            raise _named(error, f"looking for data behind {offset}", self.path) from error

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data``; a short write goes on where it stopped."""
        try:
            written = os.pwrite(self._descriptor, data, offset)
            if written < len(data):
                rest = memoryview(data)
                while written < len(data):
                    written += os.pwrite(self._descriptor, rest[written:], offset + written)
        except OSError as error:
            raise _named(error, f"writing {len(data)} bytes at {offset}", self.path) from error

    def allocate(self, size: int) -> None:
        """Set the length, then reserve blocks; writes zeros where the file system cannot reserve.

        Where it cannot, glibc's ``posix_fallocate`` writes a byte a block and so would let the
        length grow block by block; ext4 too sets it in steps, between which the power may go.
        """
        found = os.fstat(self._descriptor)
        if found.st_size >= size and found.st_blocks * STAT_BLOCK_SIZE >= size:
            return
        grows = found.st_size < size
        if grows:
            self._resize(found.st_size, size)
        try:
            if grows:
                os.ftruncate(self._descriptor, size)
            self._take_blocks(size)
        except OSError as error:
            if grows and is_full(error):
                os.ftruncate(self._descriptor, found.st_size)
            raise _named(error, f"reserving {size} bytes", self.path) from error

    def _take_blocks(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            for offset in range(0, size, ZEROS_SIZE):
                zeros = bytes(min(ZEROS_SIZE, size - offset))
                if os.pread(self._descriptor, len(zeros), offset) == zeros:
                    self.write(offset, zeros)

    def truncate(self, size: int) -> None:
        """Set the length; growth is zeros without blocks."""
        self._resize(self.size(), size)
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _named(error, f"setting the length to {size}", self.path) from error

    def map(self) -> mmap.mmap:
        """The shared read-only mapping, without readahead: records are read here and there.

        With the usual readahead one cold record costs megabytes; who reads a range in order
        announces it with ``will_need``. Python's map keeps a descriptor of its own, so that a file
        with a map is two open files.
        """
        if self._map is None:
            try:
                self._map = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
            except OSError as error:
                raise _named(error, "mapping it", self.path) from error
            self._map.madvise(mmap.MADV_RANDOM)
        return self._map

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Ask the kernel to read the ranges; it does so in the background."""
        for offset, size in ranges:
            os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the descriptor, at once or when the last sync under way is done."""
        self._is_closed = True
        self._map = None
        if self._descriptor >= 0 and not self._holds:
            os.close(self._descriptor)
            self._descriptor = -1

    def hold(self) -> None:
        """Keep the descriptor open: its number must not go to another file during a sync."""
        self._holds += 1

    def let_go(self) -> None:
        """End a ``hold``; the last one closes the file if ``close`` was called."""
        self._holds -= 1
        if self._is_closed:
            self.close()

    def sync(self) -> None:
        """Sync, blocking; a failure is remembered and final."""
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        if self._failure is not None:
            raise OSError(
                self._failure.errno, f"an earlier sync failed: {self._failure.strerror}", self.path
            )
        # Taken before: a growth that comes while the sync runs belongs to the next one.
        is_resized, self._is_resized = self._is_resized, False
        try:
            (os.fsync if is_resized else os.fdatasync)(self._descriptor)
        except OSError as error:
            self._failure = OSError(error.errno, error.strerror, self.path)
            raise self._failure from error

    def _resize(self, found: int, size: int) -> None:
        assert self._map is None or size == found, f"{self.path}: its length changes under a view"
        self._is_resized = True


class OsLock:
    """A lock that belongs to an open descriptor; the kernel drops it with the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Drop the lock; twice is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsDisk:
    """The ``Disk`` of the operating system."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(SYNC_THREADS)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> OsFile:
        """Open a file, creating it if asked."""
        flags = os.O_RDONLY if read_only else os.O_RDWR
        return OsFile(
            path, os.open(path, flags | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)
        )

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there; OSError where that cannot be seen."""
        return _mode(path) is not None

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def list_dir(self, path: str) -> list[str]:
        """Sorted names; none when the directory is missing."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dirs(self, path: str) -> list[str]:
        """Create missing directories; returns those that got a new entry."""
        changed: list[str] = []
        at = path
        while at and not os.path.isdir(at):
            at = os.path.dirname(at)
            changed.append(at or ".")
        # Not `makedirs`, which makes the upper ones for everybody.
        for one in (path, *changed)[-2::-1]:
            try:
                os.mkdir(one, DIRECTORY_MODE)
            except FileExistsError:
                if not os.path.isdir(one):
                    raise
        return changed

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing ``target`` in one step."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file; missing is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; missing is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def usage(self, path: str) -> DiskUsage:
        """Space of the nearest directory that exists."""
        while not os.path.exists(path):
            path = os.path.dirname(path) or "."
        found = shutil.disk_usage(path)
        return DiskUsage(found.total, found.used, found.free)

    def boot_id(self, path: str) -> str:
        """Boot by Linux, device and number of the file; a copy has another of these.

        A container has the boot of its machine. Source: Linux ``random(4)``.
        """
        try:
            with open(BOOT_ID_PATH, encoding="ascii") as file:
                boot = file.read().strip()
            found = os.stat(path)
        except (OSError, ValueError):
            return ""
        return f"{boot} {found.st_dev}:{found.st_ino}" if boot else ""

    def lock(self, path: str) -> OsLock:
        """Take the lock, on the byte that Java's ``FileChannel.tryLock`` takes.

        The lock is one of the open file description: it keeps Java's out as a plain record lock
        does, but holds inside this process too, and does not vanish when some other descriptor of
        the file is closed.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, LOCK_FIRST_BYTE)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StoreLockedError(f"{path}: held by another running broker") from error
            raise _named(error, "taking the lock", path) from error
        return OsLock(descriptor)

    async def sync(self, *files: File) -> None:
        """One worker thread for all files of the call."""
        if not files:
            await trio.lowlevel.checkpoint()
            return
        mine = _os_files(files)
        for file in mine:
            file.hold()
        try:
            await trio.to_thread.run_sync(_sync_all, mine, limiter=self._limiter)
        finally:
            for file in mine:
                file.let_go()

    async def sync_dir(self, path: str) -> None:
        """Sync a directory in a worker thread; wait while no more files may be open."""
        while True:
            try:
                await trio.to_thread.run_sync(self.sync_dir_now, path, limiter=self._limiter)
            except OSError as error:
                if not is_out_of_files(error):
                    raise
                # It was not opened, so that nothing has failed to be synced.
                log.warning("a directory waits to be synced", error=str(error))
                await trio.sleep(FILES_PAUSE)
            else:
                return

    def sync_now(self, *files: File) -> None:
        """Sync each of the files, blocking."""
        _sync_all(_os_files(files))

    def sync_dir_now(self, path: str) -> None:
        """Sync the names in a directory, blocking."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _named(error, "syncing its names", path) from error
        finally:
            os.close(descriptor)


def _mode(path: str) -> int | None:
    """The mode of the file at a path; None for nothing.

    ``os.path.exists`` calls missing whatever it is not let in to.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _named(error: OSError, doing: str, path: str) -> OSError:
    """An error of a descriptor names no file: the same error with place and deed."""
    return OSError(error.errno, f"{error.strerror} ({doing})", path)


def _os_files(files: tuple[File, ...]) -> list[OsFile]:
    mine = [file for file in files if isinstance(file, OsFile)]
    assert len(mine) == len(files), "a file of another disk"
    return mine


def _sync_all(files: Iterable[OsFile]) -> None:
    for file in files:
        file.sync()
