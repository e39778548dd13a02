"""Every state in which a crash may leave the disk of a recording.

A crash comes behind any event. What was synced by then is there. Of the changes that were not,
each data write may be there or not, whatever came before it; names and lengths go through the
journal of the file system, so that some first part of them is there. Of all these combinations,
for each event:

=================  ================================================================================
state              what is there of the changes that are not synced
=================  ================================================================================
all                everything: also what a killed process leaves
none               nothing
without one        everything but one data write; names and lengths up to some point
only one           one data write alone, with all names and lengths and without
only the last      the last few data writes, as if they had gone to the disk before the others
names, no data     all names and lengths: files that have grown read as zeros there
torn               everything, but of the last write only what is before, or behind, the end of a
                   sector
=================  ================================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import attrs

from simulation.recording_disk import (
    DIRECTORY,
    Change,
    DirSynced,
    Event,
    Named,
    Resized,
    SyncBegun,
    Synced,
    Written,
)
from timermq.simulator.disks.disk_damage import write_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_journal import parent
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.disk import Disk

TORN_BOUNDS_MAX = 8
"""Ends of sectors at which one write is torn: the first and last ones."""


@attrs.frozen(eq=False)
class Content:
    """The bytes of a file, and how long the file is."""

    data: bytes = b""
    """May reach beyond the length: written, but the length was lost."""
    size: int = 0

    def after(self, changes: Sequence[Written | Resized]) -> Content:
        """The content with some changes more, in this order."""
        data, size = bytearray(self.data), self.size
        for one in changes:
            if isinstance(one, Resized):
                del data[one.size :]
                size = one.size
            else:
                data += bytes(max(one.offset - len(data), 0))
                data[one.offset : one.offset + len(one.data)] = one.data
        return Content(bytes(data), size)

    def bytes(self) -> bytes:
        """What a reader gets: the file up to its length, zero where nothing was written."""
        return self.data[: self.size].ljust(self.size, b"\0")


@attrs.frozen(eq=False)
class CrashState:
    """The files after one crash."""

    event_count: int
    """Events before it."""
    label: str
    files: dict[str, bytes]
    directories: list[str]

    @property
    def is_kill(self) -> bool:
        """Everything that was written is there."""
        return self.label == "all"

    def digest(self) -> bytes:
        """The same for the same files."""
        digest = hashlib.blake2b(repr(self.directories).encode())
        for path in sorted(self.files):
            digest.update(f"{path}\0{len(self.files[path])}\0".encode())
            digest.update(self.files[path])
        return digest.digest()

    def write_to(self, disk: Disk) -> None:
        """Leave an empty disk as the crash did."""
        for directory in self.directories:
            disk.make_dirs(directory)
        write_image(disk, self.files)
        if isinstance(disk, MemoryDisk) and not self.is_kill:
            disk.power_cuts += 1


class CrashStates:
    """Walks over the events of a recording and gives the states behind each.

    Args:
        only_max: Data writes that are left out, or are there, one by one: the newest ones.
    """

    def __init__(self, events: Sequence[Event], *, only_max: int) -> None:
        self._events = events
        self._only_max = only_max
        self._contents: dict[int, Content] = {}
        self._names: dict[str, int] = {"": DIRECTORY}
        self._pending: list[Change] = []
        self._begun: dict[SyncBegun, int] = {}
        """Sync under way to the count of changes of its beginning, in ``_pending``."""

    def __iter__(self) -> Iterator[CrashState]:
        for count, event in enumerate(self._events, start=1):
            self._take(event)
            # A note, or the beginning of a sync, changes nothing on the disk, but time has passed.
            yield from self._states(count)

    def _take(self, event: Event) -> None:
        match event:
            case Written() | Resized() | Named():
                self._pending.append(event)
            case SyncBegun():
                self._begun[event] = len(self._pending)
            case Synced():
                self._sync_file(event.begun)
            case DirSynced():
                self._sync_dir(event.path)
            case _:
                pass

    def _sync_file(self, begun: SyncBegun) -> None:
        upto = self._begun.pop(begun)
        done = [
            one
            for one in self._pending[:upto]
            if not isinstance(one, Named) and one.inode == begun.inode
        ]
        before = self._contents.get(begun.inode, Content())
        self._contents[begun.inode] = before.after(done)
        self._replace_pending([None if one in done else one for one in self._pending])

    def _sync_dir(self, path: str) -> None:
        left: list[Change | None] = []
        for one in self._pending:
            if not isinstance(one, Named):
                left.append(one)
                continue
            here = {
                name: inode for name, inode in one.names.items() if parent(name) == path.rstrip("/")
            }
            _apply(here, self._names)
            elsewhere = {name: inode for name, inode in one.names.items() if name not in here}
            left.append(Named(elsewhere) if elsewhere else None)
        self._replace_pending(left)

    def _replace_pending(self, left: list[Change | None]) -> None:
        """Take changes out, and let the syncs under way keep their places."""
        for begun, count in self._begun.items():
            self._begun[begun] = sum(one is not None for one in left[:count])
        self._pending = [one for one in left if one is not None]

    def _states(self, count: int) -> Iterator[CrashState]:
        pending = self._pending
        yield self._state(count, "all", pending)
        if not pending:
            return
        yield self._state(count, "none", [])
        metadata = [one for one in pending if not isinstance(one, Written)]
        writes = [one for one in pending if isinstance(one, Written)]
        if metadata and writes:
            yield self._state(count, "names, no data", metadata)
        for number in range(len(metadata)):
            gone = metadata[number:]
            kept = [one for one in pending if one not in gone]
            yield self._state(count, f"{number} of {len(metadata)} names", kept)
        newest = writes[-self._only_max :]
        for number, one in enumerate(newest):
            if len(writes) > 1:
                without = [other for other in pending if other is not one]
                yield self._state(count, f"without {number}", without)
                yield self._state(count, f"only {number}", [*metadata, one])
        for number in range(2, len(newest)):
            last = newest[-number:]
            kept = [one for one in pending if one in metadata or one in last]
            yield self._state(count, f"only the last {number}", kept)
        if writes:
            yield from self._torn(count, writes[-1])

    def _torn(self, count: int, last: Written) -> Iterator[CrashState]:
        end = last.offset + len(last.data)
        first = last.offset // SECTOR_SIZE * SECTOR_SIZE + SECTOR_SIZE
        bounds = list(range(first, end, SECTOR_SIZE))
        if len(bounds) > TORN_BOUNDS_MAX:
            half = TORN_BOUNDS_MAX // 2
            bounds = bounds[:half] + bounds[-half:]
        for bound in bounds:
            cut = bound - last.offset
            for label, part in (
                ("head", Written(last.inode, last.offset, last.data[:cut])),
                ("tail", Written(last.inode, bound, last.data[cut:])),
            ):
                kept: list[Change] = [part if one is last else one for one in self._pending]
                yield self._state(count, f"torn at {bound}, {label}", kept)

    def _state(self, count: int, label: str, kept: Sequence[Change]) -> CrashState:
        names = dict(self._names)
        changes: dict[int, list[Written | Resized]] = {}
        for one in kept:
            if isinstance(one, Named):
                _apply(one.names, names)
            else:
                changes.setdefault(one.inode, []).append(one)
        # What stands in a directory that was lost is lost with it.
        there = {path: inode for path, inode in names.items() if _is_reached(path, names)}
        files: dict[str, bytes] = {}
        for path, inode in there.items():
            if inode != DIRECTORY:
                content = self._contents.get(inode, Content())
                files[path] = content.after(changes.get(inode, ())).bytes()
        directories = sorted(path for path, inode in there.items() if inode == DIRECTORY)
        return CrashState(count, label, files, directories)


def _is_reached(path: str, names: dict[str, int]) -> bool:
    while path:
        path = parent(path)
        if names.get(path) != DIRECTORY:
            return False
    return True


def _apply(changes: Mapping[str, int | None], names: dict[str, int]) -> None:
    for path, inode in changes.items():
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode
