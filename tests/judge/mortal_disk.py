"""The disk as one process has it, which may fill up at any operation, and knows what it wrote when.

It ends at any operation, too: that it has from the simulator, for a disk holds no opinion.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import attrs
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.process_disk import Place, ProcessDisk, ProcessFile
from timermq.timerstore.disk import Bytes, Disk, File, is_full

from .reader import NAME_DIGITS, LogReader

BLOCK_SIZE = 4096
"""Bytes in which the disk counts its room."""
PLENTY = 1 << 50
"""Size of a disk that is never full, bytes."""


@attrs.frozen
class Written:
    """When something was written, by trio's clock and the wall clock."""

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

    def seconds_behind(self) -> float:
        """How long it takes until it shows again what it has shown; 0 if it was not set back."""
        now_ms = self.look()
        return (self.highest_ms - now_ms) / 1000


class MortalDisk(ProcessDisk):
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
        super().__init__(disk, before_removal=self._note_removal)
        self.refused_count = 0
        """Operations that a full disk refused."""
        self.was_full = disk.total < PLENTY
        """It was full at some time of this process."""
        self.on_death: Callable[[], None] = lambda: None
        self.fills_at: int | None = None
        """The operation before which the disk is full."""
        self.written: list[tuple[int, Written]] = []
        """Writes to the log by position, in its order: those behind a newer one are forgotten."""
        self._memory = disk
        self._log_reader = log_reader
        self._log_directory = f"{log_directory}/"
        self._clock = clock

    def die_at(self, operation: int, part: float) -> None:
        """Have the process end at an operation from now on.

        Args:
            operation: 1 or more; 1 is the next one.
            part: How much of it is done.
        """
        self.part = part
        place = Place.BEFORE if part <= 0 else Place.AFTER if part >= 1 else Place.MIDDLE
        self.crash_at(operation, place, lambda: None)

    def die(self) -> None:
        """End the process; the first time, ``on_death`` is called."""
        if not self.is_dead:
            super().die()
            self.on_death()

    @property
    def is_full(self) -> bool:
        """Whether it has less room than plenty."""
        return self._memory.total < PLENTY

    def fill(self, spare: int = 0) -> None:
        """Leave no room on the disk but for some blocks."""
        self._memory.total = self._memory.usage("/").used + spare * BLOCK_SIZE
        self.was_full = True

    def crowd(self, percent: int) -> None:
        """Make the disk so small that so much of it is used."""
        self._memory.total = self._memory.usage("/").used * 100 // percent
        self.was_full = True

    def empty(self) -> None:
        """Give the disk plenty of room again."""
        self._memory.total = PLENTY

    def begin(self) -> Place | None:
        """An operation begins. For its files."""
        if not self.is_dead and self.operations + 1 == self.fills_at:
            self.fill()
        return super().begin()

    def opened(self, file: File) -> MortalFile:
        """A file of the process, of one of the disk."""
        return MortalFile(self, file)

    def note_write(self, path: str, offset: int, data: Bytes) -> None:
        """Something is about to be written. For its files."""
        if path.startswith(self._log_directory) and any(data):
            position = int(path[-NAME_DIGITS:]) + offset
            while self.written and self.written[-1][0] >= position:
                self.written.pop()
            now_ms = self._clock.look()
            at = Written(trio.current_time(), now_ms, self._clock.highest_ms)
            self.written.append((position, at))

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count what is refused within for want of room. For its files."""
        try:
            yield
        except OSError as error:
            self.refused_count += is_full(error)
            raise

    def _note_removal(self, disk: Disk, path: str) -> None:
        if disk.exists(path):
            self._log_reader.note_removal(path)


class Steps(trio.abc.Instrument):
    """Ends the process at the so many-th step of any task."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.disk: MortalDisk | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step of any task; at the last one the process ends."""
        del task
        if self.left is not None and self.disk is not None:
            self.left -= 1
            if self.left == 0:
                self.left = None
                self.disk.die()


class MortalFile(ProcessFile):
    """An open file of the process."""

    def __init__(self, disk: MortalDisk, file: File) -> None:
        super().__init__(disk, file)
        self._mortal = disk

    def write(self, offset: int, data: Bytes) -> None:
        """Write; if the process ends within it, the first part alone."""
        self._mortal.note_write(self.path, offset, data)
        with self._mortal.counting():
            super().write(offset, data)

    def allocate(self, size: int) -> None:
        """Reserve blocks; what a full disk refuses is counted."""
        with self._mortal.counting():
            super().allocate(size)

    def truncate(self, size: int) -> None:
        """Set the length; what a full disk refuses is counted."""
        with self._mortal.counting():
            super().truncate(size)
