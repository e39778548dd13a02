"""Mapped files: a log in segments of one size, named by where they begin.

``<directory>/<20 digits>``; every segment is ``segment_size`` bytes long from its creation on, so
the length says nothing about the contents: recovery finds the end and calls ``set_end``. Writing is
``pwrite``, reading goes through a read-only map of each segment (logs) or is ``pread`` (queues). A
write into a map would be slower (a page fault each 4 KiB), would turn a full disk into SIGBUS, and
make a sync write up to 1 MiB.

A map is a further open file. A log that is written makes those of its segments when they are opened
or begun, where a failure is expected; who reads opens nothing, however many files are open by then.

Source: Java ``MappedFileQueue``.
"""

from __future__ import annotations

import structlog
import trio

from .disk import Bytes, Disk, File
from .errors import StoreFormatError
from .lost_segments import begin_lost_segments
from .mapped_file import MappedFile
from .seal_reader import remove_seals
from .seals import SealMoment, Seals

NAME_DIGITS = 20

REWRITE_SIZE = 1 << 20
"""Bytes that are written again in one step, and zeros behind the end that are."""

log = structlog.get_logger("timermq.timerstore.mapped_file_queue")


class MappedFileQueue:
    """A log in segments.

    Args:
        disk: The disk of the files.
        directory: Their directory; created with the first segment.
        segment_size: Bytes of one segment.
        reserve: Reserve the blocks of a new segment and map it (logs: no surprises while writing
            and reading), or leave it sparse, to be read by ``read_file`` (queues: many of them,
            mostly short).
        read_only: Nothing is created, changed or removed; ends are kept in memory. A segment is
            mapped when it is read: tools may have few files, and pass over most of a log.
        sealed: When what is appended gets its seals (``seals``); None: it gets none.
        lengthen: A segment that was cut short, or is lost, gets its length again, for another log
            has all that it held; zeros are read there. Otherwise it is refused.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segment_size: int,
        *,
        reserve: bool,
        read_only: bool = False,
        sealed: SealMoment | None = None,
        lengthen: bool = False,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.segment_size = segment_size
        self._reserve = reserve
        self._read_only = read_only
        self._lengthen = lengthen and not read_only
        self.segments: list[MappedFile] = []
        self.wrote = 0
        """End of the data."""
        self.flushed_where = 0
        """Everything before it is durable."""
        self._unsynced_dirs: dict[str, int] = {}
        """Directories whose entries changed and are not durable, with the count of changes."""
        self.seals = sealed and Seals(disk, directory, segment_size, sealed, read_only=read_only)
        """Of what is in the log; None: it gets none."""

    @property
    def min_offset(self) -> int:
        """Start of the oldest segment; 0 without segments."""
        return self.segments[0].start if self.segments else 0

    def load(self) -> None:
        """Open the segments that are there; ``wrote`` is the end of the last one until set.

        Last segments of length zero were being created when the process died, or their lengths were
        lost with the power; they are removed. So are those that are too short and hold nothing but
        zeros: where the file system cannot reserve blocks, earlier versions and RocketMQ let the
        length grow block by block, and data comes only when all are there.

        Raises:
            StoreFormatError: A file of another name or length, or a gap between two segments;
                nothing was changed.
            OSError: A file cannot be opened; nothing was changed.
        """
        names = [
            name
            for name in self._disk.list_dir(self._directory)
            if not self._disk.is_dir(f"{self._directory}/{name}")
        ]
        try:
            if self._lengthen:
                size = self.segment_size
                names = begin_lost_segments(self._disk, self._directory, names, size)
            sizes = [self._load_segment(name) for name in names]
            empty = self._take_last_empty(sizes)
            if self._reserve and not self._read_only:
                for segment in self.segments:
                    segment.file.map()
        except (OSError, StoreFormatError):
            self.close()
            self.segments.clear()
            raise
        if not self._read_only:
            for segment in empty:
                self._disk.remove(segment.file.path)
        self.wrote = self.flushed_where = self.segments[-1].end if self.segments else 0

    def _load_segment(self, name: str) -> int:
        """Open a segment that is whole or was being created; returns the length."""
        path = f"{self._directory}/{name}"
        start = self._check_name(path, name)
        file = self._disk.open(path, read_only=self._read_only)
        # A process that ended while it reserved the blocks has left some out.
        is_reserved = not self._reserve
        self.segments.append(MappedFile(start, file, self.segment_size, is_reserved))
        size = file.size()
        if self._was_being_created(file, size):
            return size
        return self._checked_size(self.segments[-1], size)

    def _take_last_empty(self, sizes: list[int]) -> list[MappedFile]:
        """Take the last segments out that were being created; all others must be whole."""
        empty: list[MappedFile] = []
        while sizes and sizes[-1] < self.segment_size:
            sizes.pop()
            empty.append(self.segments.pop())
            empty[-1].file.close()
        for segment, size in zip(self.segments, sizes, strict=True):
            self._checked_size(segment, size)
        return empty

    def _was_being_created(self, file: File, size: int) -> bool:
        """Whether a file has no length yet, or, to be reserved, a part of it and no data."""
        return size < (self.segment_size if self._reserve else 1) and not any(
            any(file.read(at, REWRITE_SIZE)) for at in range(0, size, REWRITE_SIZE)
        )

    def _checked_size(self, segment: MappedFile, size: int) -> int:
        """The size of a whole segment, which one that was cut short may get again."""
        if self._lengthen and size < self.segment_size:
            path, expected = segment.file.path, self.segment_size
            log.error("segment was cut short", path=path, size=size, expected=expected)
            segment.file.allocate(expected)
        elif size != self.segment_size:
            raise StoreFormatError(
                segment.file.path, size, f"a segment of {self.segment_size} bytes", f"{size}"
            )
        return self.segment_size

    def set_end(self, offset: int) -> None:
        """The data ends at ``offset``: later segments are removed, later bytes are nothing.

        A segment that begins at ``offset`` is removed too, unless it is the only one: its name is
        then all that says where the log goes on.

        Source: Java ``MappedFileQueue.truncateDirtyFiles``, which keeps that segment always.
        """
        while self.segments and self._is_behind(self.segments[-1], offset):
            self._drop(self.segments.pop())
        self.wrote = offset
        self.flushed_where = min(self.flushed_where, offset)
        last = self.segment_at(offset) or (self.segments[-1] if self.segments else None)
        if self.seals is not None and last is not None:
            self.seals.begin(last.start, offset, last.file)

    def segment_at(self, offset: int) -> MappedFile | None:
        """The segment that covers ``offset``."""
        if not self.segments:
            return None
        index = (offset - self.segments[0].start) // self.segment_size
        if not 0 <= index < len(self.segments):
            return None
        return self.segments[index]

    def read(self, offset: int, size: int) -> bytes:
        """Bytes inside one segment; fewer at its end or the end of the data, none outside."""
        segment = self.segment_at(offset)
        if segment is None or offset >= self.wrote:
            return b""
        at = offset - segment.start
        return segment.file.map()[at : min(at + size, segment.size, self.wrote - segment.start)]

    def read_file(self, offset: int, size: int) -> bytes:
        """As ``read``, but not through the map: half a microsecond more, and no further open file.

        A hole of a sparse file reads as zeros here. Touched in a map it takes a block, where the
        file system is memory (tmpfs), and without room the process dies of SIGBUS.
        """
        segment = self.segment_at(offset)
        if segment is None or offset >= self.wrote:
            return b""
        at = offset - segment.start
        return segment.file.read(at, min(size, segment.size - at, self.wrote - offset))

    def room(self) -> int:
        """Bytes left in the last segment; 0 when a new one is needed."""
        return max(self.segments[-1].end - self.wrote, 0) if self.segments else 0

    def write(self, offset: int, data: Bytes) -> None:
        """Write inside one segment, creating it if it is the next one; ``wrote`` follows.

        The first write into a segment that another process has made takes the blocks that are
        missing in it.

        Raises:
            OSError: The disk did not take it; ``wrote`` is unchanged.
        """
        assert not self._read_only
        segment = self.segment_at(offset)
        if segment is None:
            self.start_segment(offset - offset % self.segment_size)
            segment = self.segments[-1]
        elif not segment.is_reserved:
            segment.file.allocate(self.segment_size)
            segment.is_reserved = True
        assert segment.start <= offset <= offset + len(data) <= segment.end
        segment.file.write(offset - segment.start, data)
        if self.seals is not None:
            self.seals.extend(offset, data)
        self.wrote = max(self.wrote, offset + len(data))

    def start_segment(self, offset: int) -> None:
        """Create the segment that begins at ``offset``, which is where the last one ends.

        Raises:
            OSError: No room, or too many open files; nothing has changed.
        """
        assert not self._read_only
        assert offset % self.segment_size == 0
        assert not self.segments or offset == self.segments[-1].end
        for directory in (*self._disk.make_dirs(self._directory), self._directory):
            self._note_change(directory)
        path = f"{self._directory}/{offset:0{NAME_DIGITS}d}"
        file = self._disk.open(path, create=True)
        try:
            if self._reserve:
                file.allocate(self.segment_size)
                file.map()
            else:
                file.truncate(self.segment_size)
            if self.seals is not None:
                for directory in self.seals.start_segment(offset):
                    self._note_change(directory)
        except OSError:
            file.close()
            self._disk.remove(path)
            raise
        if not self.segments:
            self.wrote = self.flushed_where = offset
        self.segments.append(MappedFile(offset, file, self.segment_size))

    def unflushed(self, upto: int | None = None) -> tuple[list[File], int]:
        """Files with data that is not durable, and what is durable once they are synced.

        New segments have new names: ``flush`` syncs the directory too.
        """
        end = self.wrote if upto is None else min(upto, self.wrote)
        if end <= self.flushed_where:
            return [], self.flushed_where
        before = max(self.flushed_where - self.min_offset, 0) // self.segment_size
        upto_segment = -(-(end - self.min_offset) // self.segment_size)
        return [segment.file for segment in self.segments[before:upto_segment]], end

    def mark_flushed(self, offset: int) -> None:
        """The caller has synced what ``unflushed`` named."""
        self.flushed_where = max(self.flushed_where, min(offset, self.wrote))

    async def flush(self, upto: int | None = None) -> int:
        """Make everything up to ``upto`` durable, all segments and their names.

        Returns ``flushed_where``.

        Raises:
            OSError: A sync failed; it must not be retried.

        Cancellation: ``flushed_where`` moves only after all syncs; the next flush does the rest.
        """
        files, end = self.unflushed(upto)
        if not files:
            await trio.lowlevel.checkpoint()
            return self.flushed_where
        if self.seals is not None:
            self.seals.seal()
        await self._disk.sync(*files)
        for directory, count in list(self._unsynced_dirs.items()):
            await self._disk.sync_dir(directory)
            # What changed while the sync ran belongs to the next flush.
            if self._unsynced_dirs.get(directory) == count:
                del self._unsynced_dirs[directory]
        self.mark_flushed(end)
        return self.flushed_where

    async def flush_seals(self) -> None:
        """Make the seals durable, as far as the bytes are that they are of.

        Raises:
            OSError: The sync failed; it must not be retried.

        Cancellation: the next call does it.
        """
        if self.seals is not None:
            await self.seals.flush()

    def repair(self, first: int, end: int, *, only_look: bool = False) -> list[int]:
        """Compare what stands in [first, end) with its seals; put single words right, or look only.

        Returns:
            Positions of the sectors that are not as they were written, and stay so.

        Raises:
            OSError: The disk failed.
        """
        left: list[int] = []
        if self.seals is not None:
            compare = self.seals.damaged if only_look else self.seals.repair
            for segment in self.segments:
                start, to = max(first, segment.start), min(end, segment.end)
                if start < to:
                    left += compare(segment.start, segment.file, start, to)
        return left

    def forget_seals(self) -> None:
        """The log was written by another program: what its seals say is out of date (blocking).

        Raises:
            OSError: The disk failed.
        """
        if self.seals is not None and not self._read_only:
            self.seals.close()
            remove_seals(self._disk, self._directory)

    def rewrite(self, first: int) -> None:
        """Write again what stands from ``first`` to the end, and zeros behind it.

        After a sync that failed, in this process or one before it, the page cache may show as clean
        what is not on the disk, and a further sync would pass over it. Written again it is dirty.

        Raises:
            OSError: The disk did not take it.
        """
        for segment in self.segments:
            end = min(self.wrote - segment.start + REWRITE_SIZE, segment.size)
            for at in range(max(first - segment.start, 0), end, REWRITE_SIZE):
                data = segment.file.read(at, min(REWRITE_SIZE, end - at))
                segment.file.write(at, data)

    def delete_before(self, offset: int) -> int:
        """Remove segments that end at or before ``offset``, never the last; returns how many."""
        count = sum(segment.end <= offset for segment in self.segments[:-1])
        for _ in range(count):
            self._drop(self.segments.pop(0))
        if count and self.seals is not None:
            # Their seals are gone for good: a power cut would bring them back without any.
            self._disk.sync_dir_now(self._directory)
        return count

    def close(self) -> None:
        """Close all files; nothing is written."""
        for segment in self.segments:
            segment.file.close()
        if self.seals is not None:
            self.seals.close()

    def _is_behind(self, segment: MappedFile, offset: int) -> bool:
        return segment.start > offset or (segment.start == offset and len(self.segments) > 1)

    def _drop(self, segment: MappedFile) -> None:
        segment.file.close()
        if not self._read_only:
            if self.seals is not None:
                self.seals.drop(segment.start)
            self._disk.remove(segment.file.path)
            # A removed segment must not come back behind data that is durable by then.
            self._note_change(self._directory)

    def _note_change(self, directory: str) -> None:
        self._unsynced_dirs[directory] = self._unsynced_dirs.get(directory, 0) + 1

    def _check_name(self, path: str, name: str) -> int:
        is_number = len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
        if not is_number or int(name) % self.segment_size:
            expected = f"a name of {NAME_DIGITS} digits, a multiple of {self.segment_size}"
            raise StoreFormatError(path, 0, expected, name)
        if self.segments and int(name) != self.segments[-1].end:
            expected = f"the segment that begins at {self.segments[-1].end}"
            raise StoreFormatError(path, 0, expected, name)
        return int(name)
