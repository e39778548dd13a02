"""A ``Disk`` over a ``MemoryDisk`` that writes down every change, for ``crash_states``.

A file is known by a number, its inode: names come and go. Reading changes nothing and is not noted.
A sync is two events: what was written before its beginning is durable at its end.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Mapping

import attrs

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Bytes, Disk, DiskUsage, File, Lock

DIRECTORY = -1
"""The inode of every directory."""


@attrs.frozen(eq=False)
class Written:
    """Bytes were written at an offset of a file."""

    inode: int
    offset: int
    data: bytes


@attrs.frozen(eq=False)
class Resized:
    """A file has another length; what is new is zero."""

    inode: int
    size: int


@attrs.frozen(eq=False)
class Named:
    """Names set (to an inode) or removed (None), in one step."""

    names: Mapping[str, int | None]


@attrs.frozen(eq=False)
class SyncBegun:
    """What was written to a file up to here is being made durable."""

    inode: int


@attrs.frozen(eq=False)
class Synced:
    """A sync that had begun is done: what was written before it is durable."""

    begun: SyncBegun


@attrs.frozen(eq=False)
class DirSynced:
    """The names in a directory are durable."""

    path: str


@attrs.frozen(eq=False)
class Noted:
    """Something that the one who stages the workload wants to know about this moment."""

    note: object


Change = Written | Resized | Named
Event = Change | SyncBegun | Synced | DirSynced | Noted


@attrs.define
class Recording:
    """What happened to a disk, and when."""

    now_ms: Callable[[], int]
    events: list[Event] = attrs.Factory(list[Event])
    times: list[int] = attrs.Factory(list[int])
    """Of each event, epoch milliseconds."""

    def add(self, event: Event) -> None:
        """Write an event of the disk down, with its time."""
        self.events.append(event)
        self.times.append(self.now_ms())

    def note(self, note: object) -> None:
        """Write down what is no event of the disk."""
        self.add(Noted(note))

    def without_syncs(self, of: Callable[[int], bool] = lambda _inode: True) -> Recording:
        """The same disk if the syncs of some files had not been done, by their inodes."""
        kept = [
            (event, time_ms)
            for event, time_ms in zip(self.events, self.times, strict=True)
            if not (isinstance(event, Synced) and of(event.begun.inode))
        ]
        return Recording(self.now_ms, [event for event, _ in kept], [at for _, at in kept])


class RecordingFile:
    """An open file whose changes are written down."""

    def __init__(self, recording: Recording, inner: File, inode: int) -> None:
        self.path = inner.path
        self.inner = inner
        self.inode = inode
        self._recording = recording

    def size(self) -> int:
        """Length of the file in bytes."""
        return self.inner.size()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from an offset on, as the disk below gives them."""
        return self.inner.read(offset, size)

    def next_data(self, offset: int) -> int:
        """Where the next block is."""
        return self.inner.next_data(offset)

    def write(self, offset: int, data: Bytes) -> None:
        """A write behind the end is two changes: the length, and the data."""
        before = self.inner.size()
        self.inner.write(offset, data)
        self._note_size(before)
        if len(data):
            self._recording.add(Written(self.inode, offset, bytes(data)))

    def allocate(self, size: int) -> None:
        """Reserve blocks; a new length is written down."""
        before = self.inner.size()
        self.inner.allocate(size)
        self._note_size(before)

    def truncate(self, size: int) -> None:
        """Set the length; a new one is written down."""
        before = self.inner.size()
        self.inner.truncate(size)
        self._note_size(before)

    def map(self) -> mmap.mmap:
        """The mapping of the file below; changes through it are not written down."""
        return self.inner.map()

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Hand the hint to the file below."""
        self.inner.will_need(ranges)

    def close(self) -> None:
        """Close the file below; that is no event."""
        self.inner.close()

    def _note_size(self, before: int) -> None:
        after = self.inner.size()
        if after != before:
            self._recording.add(Resized(self.inode, after))


class RecordingDisk:
    """The disk of one recording, for several processes one after the other."""

    def __init__(self, inner: MemoryDisk, recording: Recording) -> None:
        self.inner = inner
        self.recording = recording
        self._inodes: dict[str, int] = {}
        self._inode_count = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RecordingFile:
        """Open a file; a name that is new is written down."""
        is_new = create and not self.inner.exists(path)
        file = self.inner.open(path, create=create, read_only=read_only)
        if is_new:
            self._name({path: self._inode_count})
            self._inode_count += 1
        return RecordingFile(self.recording, file, self._inodes[path])

    def exists(self, path: str) -> bool:
        """Whether the disk below has something there."""
        return self.inner.exists(path)

    def is_dir(self, path: str) -> bool:
        """Whether a directory is there."""
        return self.inner.is_dir(path)

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, as the disk below gives them."""
        return self.inner.list_dir(path)

    def make_dirs(self, path: str) -> list[str]:
        """Each new directory is a new name."""
        parents = self.inner.make_dirs(path)
        made = [path, *parents[:-1]] if parents else []
        for one in reversed(made):
            self._name({one: DIRECTORY})
        return parents

    def rename(self, source: str, target: str) -> None:
        """Rename a file; that both names change in one step is written down."""
        self.inner.rename(source, target)
        self._name({source: None, target: self._inodes[source]})

    def remove(self, path: str) -> None:
        """Remove a file; that its name goes is written down."""
        if self.inner.exists(path):
            self.inner.remove(path)
            self._name({path: None})

    def remove_dir(self, path: str) -> None:
        """Remove a directory; that its name goes is written down."""
        if self.inner.is_dir(path):
            self.inner.remove_dir(path)
            self._name({path: None})

    def modified_ms(self, path: str) -> int:
        """When a file was changed last, in milliseconds since the epoch."""
        return self.inner.modified_ms(path)

    def usage(self, path: str) -> DiskUsage:
        """Room on the disk below, as it tells."""
        return self.inner.usage(path)

    def boot_id(self, path: str) -> str:
        """Boot of the disk below."""
        return self.inner.boot_id(path)

    def lock(self, path: str) -> Lock:
        """The lock file is a file too."""
        self.open(path, create=True).close()
        return self.inner.lock(path)

    async def sync(self, *files: File) -> None:
        """Sync files; the begin and the end are written down."""
        inner, begun = self._begin(files)
        await self.inner.sync(*inner)
        self._end(begun)

    async def sync_dir(self, path: str) -> None:
        """Sync a directory; that its names are durable is written down."""
        await self.inner.sync_dir(path)
        self.recording.add(DirSynced(path))

    def sync_now(self, *files: File) -> None:
        """Sync files at once; the begin and the end are written down."""
        inner, begun = self._begin(files)
        self.inner.sync_now(*inner)
        self._end(begun)

    def sync_dir_now(self, path: str) -> None:
        """Sync a directory at once; that its names are durable is written down."""
        self.inner.sync_dir_now(path)
        self.recording.add(DirSynced(path))

    def _begin(self, files: Iterable[File]) -> tuple[list[File], list[SyncBegun]]:
        mine = [file for file in files if isinstance(file, RecordingFile)]
        begun = [SyncBegun(file.inode) for file in mine]
        for one in begun:
            self.recording.add(one)
        return [file.inner for file in mine], begun

    def _end(self, begun: list[SyncBegun]) -> None:
        for one in begun:
            self.recording.add(Synced(one))

    def _name(self, names: dict[str, int | None]) -> None:
        for path, inode in names.items():
            if inode is None:
                del self._inodes[path]
            else:
                self._inodes[path] = inode
        self.recording.add(Named(names))


def is_a_disk(disk: RecordingDisk) -> Disk:
    """For the type checkers: it has all that a disk has."""
    return disk
