"""The disk as one process has it, which may end at any operation, and fill up at any.

Operations that change something are counted. Once the process is dead nothing of it reaches the
disk, whatever its tasks still do while they are unwound.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterable

import attrs
import trio

from timermq.timerstore.disk import Bytes, DiskUsage, File, is_full
from timermq.timerstore.memory_disk import MemoryDisk, MemoryFile, MemoryLock

from .reader import NAME_DIGITS, LogReader

BLOCK_SIZE = 4096
"""Bytes in which the disk counts its room."""
PLENTY = 1 << 50
"""Size of a disk that is never full, bytes."""


@attrs.frozen
class Written:
    """When something was written."""

    time: float
    """By trio's clock, which is never set."""
    wall_ms: int
    """By the wall clock."""
    highest_ms: int
    """The latest that the wall clock had ever shown."""


@attrs.define
class WallClock:
    """What the judge knows of the wall clock."""

    now_ms: Callable[[], int]
    highest_ms: int = 0

    def look(self) -> int:
        """The time, which is remembered."""
        now_ms = self.now_ms()
        self.highest_ms = max(self.highest_ms, now_ms)
        return now_ms


class MortalDisk:
    """The disk of one process.

    Args:
        disk: What outlives it.
        log_reader: Told what of the log is removed.
        log_directory: Where the log is.
        clock: The wall clock.
    """

    def __init__(
        self, disk: MemoryDisk, log_reader: LogReader, log_directory: str, clock: WallClock
    ) -> None:
        self.is_dead = False
        self.operations = 0
        """Changes so far."""
        self.refused_count = 0
        """Operations that a full disk refused."""
        self.was_full = disk.total < PLENTY
        """It was full at some time of this process."""
        self.on_death: Callable[[], None] = lambda: None
        self.dies_at: int | None = None
        """The operation at which the process ends."""
        self.part: float = 0.0
        """How much of a write is done before it ends: 0 nothing, 1 all."""
        self.fills_at: int | None = None
        """The operation before which the disk is full."""
        self.written: list[tuple[int, Written]] = []
        """Writes to the log by position, in its order: those behind a newer one are forgotten."""
        self._disk = disk
        self._log_reader = log_reader
        self._log_directory = f"{log_directory}/"
        self._clock = clock

    def die(self) -> None:
        """The process has ended."""
        if not self.is_dead:
            self.is_dead = True
            self.on_death()

    @property
    def is_full(self) -> bool:
        """Whether it has less room than plenty."""
        return self._disk.total < PLENTY

    def fill(self, spare: int = 0) -> None:
        """Leave no room on the disk but for some blocks."""
        self._disk.total = self._disk.usage("/").used + spare * BLOCK_SIZE
        self.was_full = True

    def crowd(self, percent: int) -> None:
        """Make the disk so small that so much of it is used."""
        self._disk.total = self._disk.usage("/").used * 100 // percent
        self.was_full = True

    def empty(self) -> None:
        """Give it room."""
        self._disk.total = PLENTY

    def change(self, do: Callable[[], None], part: Callable[[float], None] | None = None) -> None:
        """Do an operation, unless the process ends at it. For its files."""
        self.check()
        self.operations += 1
        if self.operations == self.fills_at:
            self.fill()
        if self.operations == self.dies_at:
            if self.part >= 1:
                do()
            elif part is not None:
                part(self.part)
            self.die()
            self.check()
        try:
            do()
        except OSError as error:
            self.refused_count += is_full(error)
            raise

    def note_write(self, path: str, offset: int, data: Bytes) -> None:
        """Something is about to be written. For its files."""
        if path.startswith(self._log_directory) and any(data):
            position = int(path[-NAME_DIGITS:]) + offset
            while self.written and self.written[-1][0] >= position:
                self.written.pop()
            now_ms = self._clock.look()
            at = Written(trio.current_time(), now_ms, self._clock.highest_ms)
            self.written.append((position, at))

    def check(self) -> None:
        """Refuse what comes from a dead process. For its files."""
        if self.is_dead:
            raise OSError(errno.EBADF, "the process is dead")

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MortalFile:
        """Open a file; to create one is a change."""
        opened: list[MemoryFile] = []

        def do() -> None:
            opened.append(self._disk.open(path, create=create, read_only=read_only))

        if create and not self._disk.exists(path):
            self.change(do)
        else:
            self.check()
            do()
        return MortalFile(self, opened[0])

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        return self._disk.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        """Sorted names."""
        return self._disk.list_dir(path)

    def make_dirs(self, path: str) -> list[str]:
        """Create directories."""
        self.check()
        return self._disk.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        """Rename in one step."""
        self.change(lambda: self._disk.rename(source, target))

    def remove(self, path: str) -> None:
        """Remove a file."""

        def do() -> None:
            if self._disk.exists(path):
                self._log_reader.note_removal(path)
            self._disk.remove(path)

        self.change(do)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        self.change(lambda: self._disk.remove_dir(path))

    def modified_ms(self, path: str) -> int:
        """Modification time."""
        return self._disk.modified_ms(path)

    def usage(self, path: str) -> DiskUsage:
        """Space of the disk."""
        return self._disk.usage(path)

    def boot_id(self, path: str) -> str:
        """Boot of the disk."""
        return self._disk.boot_id(path)

    def lock(self, path: str) -> MemoryLock:
        """Take the lock."""
        self.check()
        return self._disk.lock(path)

    async def sync(self, *files: File) -> None:
        """Make contents durable."""
        self.change(lambda: None)
        await self._disk.sync(*map(_below, files))
        self.check()

    async def sync_dir(self, path: str) -> None:
        """Make names durable."""
        self.change(lambda: None)
        await self._disk.sync_dir(path)
        self.check()

    def sync_now(self, *files: File) -> None:
        """``sync``, blocking."""
        self.change(lambda: self._disk.sync_now(*map(_below, files)))

    def sync_dir_now(self, path: str) -> None:
        """``sync_dir``, blocking."""
        self.change(lambda: self._disk.sync_dir_now(path))


class Steps(trio.abc.Instrument):
    """Ends the process at the so many-th step of any task."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.disk: MortalDisk | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """One step more."""
        del task
        if self.left is not None and self.disk is not None:
            self.left -= 1
            if self.left == 0:
                self.left = None
                self.disk.die()


class MortalFile:
    """An open file of the process."""

    def __init__(self, disk: MortalDisk, file: MemoryFile) -> None:
        self.path = file.path
        self.below = file
        self._disk = disk

    def size(self) -> int:
        """Length in bytes."""
        return self.below.size()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from ``offset`` on."""
        return self.below.read(offset, size)

    def next_data(self, offset: int) -> int:
        """What is no hole."""
        return self.below.next_data(offset)

    def write(self, offset: int, data: Bytes) -> None:
        """Write; if the process ends within it, the first part alone."""

        def part(share: float) -> None:
            self.below.write(offset, bytes(data)[: int(len(data) * share)])

        self._disk.note_write(self.path, offset, data)
        self._disk.change(lambda: self.below.write(offset, data), part)

    def allocate(self, size: int) -> None:
        """Reserve blocks."""
        self._disk.change(lambda: self.below.allocate(size))

    def truncate(self, size: int) -> None:
        """Set the length."""
        self._disk.change(lambda: self.below.truncate(size))

    def map(self) -> mmap.mmap:
        """A view of the whole file."""
        return self.below.map()

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """A hint, of no use in memory."""

    def close(self) -> None:
        """Close the file."""
        self.below.close()


def _below(file: File) -> File:
    assert isinstance(file, MortalFile), f"{file.path}: a file of another disk"
    return file.below
