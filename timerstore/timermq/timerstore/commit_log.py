"""The commit log: every record of every topic, one after the other, in segments of one size.

Files ``commitlog/<20 digits>``, named by the position of their first byte. A record never crosses
a segment; a tail too small for the next record holds a blank record. Segments are reserved when
they are begun, written with pwrite and read through read-only maps.

Corresponds to RocketMQ's CommitLog.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from .array_types import Places
from .consume_queue_table import ConsumeQueueTable
from .disk import Disk
from .errors import StoreFailedError, StoreFormatError
from .log_scan import LogScan
from .mapped_file import MappedFile
from .mapped_file_queue import MappedFileQueue
from .old_bytes import OldBytes
from .queue_register import QueueRegister
from .record import decode_record
from .record_block import RecordBlock, joined_runs
from .record_check import CheckKind, CheckResult, check_record
from .record_layout import BLANK, BLANK_MAGIC, FIXED_SIZE_V1, PHY_OFFSET_AT
from .record_places import RecordPlaces
from .seals import SealMoment

ZERO_CHUNK_SIZE = 1 << 20
"""Bytes examined or zeroed in one step behind the log's end."""

ZERO_RUN_SIZE = 256 << 20
"""Zeros in a row behind which nothing is looked for: more than is written between two syncs."""

_ZEROS = bytes(ZERO_CHUNK_SIZE)


@attrs.frozen
class LogWrite:
    """Records that stand side by side in one segment."""

    offset: int
    data: bytes


class CommitLog:
    """The records of a store.

    Args:
        disk: The disk of the files.
        directory: ``<root>/commitlog``.
        segment_size: Bytes of one segment.
        read_only: Nothing is written; the end found by recovery is kept in memory.
        sealed: When records get their seals.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segment_size: int,
        *,
        read_only: bool = False,
        sealed: SealMoment = SealMoment.APPEND,
    ) -> None:
        self.directory = directory
        self.segment_size = segment_size
        self._disk = disk
        self._files = MappedFileQueue(
            disk, directory, segment_size, reserve=True, read_only=read_only, sealed=sealed
        )
        self.old = OldBytes(self._files)
        """The bytes from before the log was opened, once its seals are trusted."""
        self.places = RecordPlaces(sealed_size=self._sealed_size)
        """The starts of records behind damage; with queues it knows more (``ask_queues``)."""

    @property
    def min_offset(self) -> int:
        """Position of the oldest record."""
        return self._files.min_offset

    @property
    def max_offset(self) -> int:
        """End of the data: where the next record will stand."""
        return self._files.wrote

    @property
    def flushed_where(self) -> int:
        """Everything before it is durable."""
        return self._files.flushed_where

    @property
    def room(self) -> int:
        """Bytes left in the newest segment, 0 when the next record needs a new one."""
        return self._files.room()

    @property
    def segments(self) -> Sequence[MappedFile]:
        """The segments of the log, oldest first."""
        return self._files.segments

    def segment_at(self, offset: int) -> MappedFile | None:
        """The segment that covers a position."""
        return self._files.segment_at(offset)

    def load(self) -> None:
        """Open the segments that are there.

        Raises:
            StoreFormatError: A file is not a segment of this log.
        """
        self._files.load()

    def trust_seals(self) -> None:
        """The log is as this program left it: what is read is compared with its seals first."""
        self.old.begin(self.max_offset)

    def ask_queues(self, queues: ConsumeQueueTable, register: QueueRegister) -> None:
        """Let a reader behind damage ask the units of these queues, and which there were."""
        self.places = RecordPlaces(lambda: queues, register, self._sealed_size)

    def forget_seals(self) -> None:
        """Another program may have written the log since (blocking).

        Raises:
            OSError: The disk failed.
        """
        self._files.forget_seals()

    # -- reading ------------------------------------------------------------------------------

    def holds(self, phy_offset: int, size: int) -> bool:
        """Whether the bytes of a record are within the log."""
        return size > 0 and self.min_offset <= phy_offset <= self.max_offset - size

    def read(self, phy_offset: int, size: int) -> bytes:
        """Bytes inside one segment; fewer at its end and at the end of the data."""
        return self._files.read(phy_offset, size)

    def record_at(self, phy_offset: int, size: int) -> bytes | None:
        """The bytes of one record, or of neighbouring ones.

        None when they are not in the log, or are not as an earlier process wrote them.
        """
        if not self.old.compare(phy_offset, phy_offset + size):
            return None
        data = self._files.read(phy_offset, size)
        return data if data and len(data) == size else None

    def records_at(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes | None]:
        """The bytes at many (position, size), None where there are none: cheap for neighbours.

        What is old is to be compared by the caller (``old``), many at a time.
        """
        view: bytes | mmap.mmap = b""
        start = end = 0
        for phy_offset, size in places:
            if not start <= phy_offset < end:
                segment = self._files.segment_at(phy_offset)
                if segment is None:
                    yield None
                    continue
                view, start = segment.file.map(), segment.start
                end = min(segment.end, self.max_offset)
            yield (
                view[phy_offset - start : phy_offset - start + size]
                if (0 < size <= end - phy_offset)
                else None
            )

    def block_at(self, positions: Places, sizes: Places) -> RecordBlock | None:
        """Many records in one piece, neighbours read together; cold ones are announced first.

        Args:
            positions: Where they stand, in the order that the block is to have.
            sizes: Their sizes.

        Returns:
            None when any of them is not in the log, or is not of its size.
        """
        if not len(positions) or int(sizes.min()) < FIXED_SIZE_V1:
            return None
        order = np.argsort(positions, kind="stable")
        sorted_sizes = sizes[order]
        runs = joined_runs(positions[order], sorted_sizes)
        self.will_need(runs)
        parts = [part for part in self.records_at(runs) if part is not None]
        if len(parts) < len(runs):
            return None
        sorted_ends = np.cumsum(sorted_sizes, dtype=np.int64)
        ends = np.empty_like(sorted_ends)
        ends[order] = sorted_ends
        block = RecordBlock(b"".join(parts), ends - sizes, ends)
        return block if bool((block.heads["total_size"] == sizes).all()) else None

    def will_need(self, records: Iterable[tuple[int, int]]) -> None:
        """Announce (position, size) of records that are read next: cold ones come together."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        for phy_offset, size in records:
            segment = self.segment_at(phy_offset)
            if segment is not None:
                place = (phy_offset - segment.start, size)
                ranges.setdefault(segment.start, []).append(place)
        for start, places in ranges.items():
            segment = self.segment_at(start)
            if segment is not None:
                segment.file.will_need(places)

    def check_at(self, phy_offset: int, *, check_crc: bool) -> CheckResult | None:
        """Look whether a record stands at a position; None when that is outside the segments."""
        segment = self._files.segment_at(phy_offset)
        if segment is None:
            return None
        at = phy_offset - segment.start
        return check_record(segment.file.map(), at, segment.size, phy_offset, check_crc=check_crc)

    def earliest_store_ms(self) -> int | None:
        """Store time of the oldest record, epoch milliseconds; None without one."""
        found = self.check_at(self.min_offset, check_crc=False)
        if found is None or found.kind is not CheckKind.RECORD:
            return None
        return decode_record(self.read(self.min_offset, found.size)).store_ms

    def next_segment_start(self, phy_offset: int) -> int:
        """Start of the segment after the one of a position."""
        return phy_offset - phy_offset % self.segment_size + self.segment_size

    def scan(self, first: int, *, check_crc: bool) -> LogScan:
        """Walk over the records from ``first`` (a record's position) up to the end or a bad one."""
        self.old.compare(first, self.max_offset)
        return LogScan(self._files, first, check_crc=check_crc)

    def walk(self, first: int, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Position and size of records found good before, three times as fast as a scan.

        Args:
            first: Position of a record.
            end: End of another one; None: up to where the data ends.

        Raises:
            StoreFormatError: A size cannot be one: the file has changed since.
        """
        offset, end = first, self.max_offset if end is None else end
        while offset < end:
            segment = self._files.segment_at(offset)
            assert segment is not None
            view = segment.file.map()
            limit = min(segment.end, end)
            while offset < limit:
                size, magic = BLANK.struct.unpack_from(view, offset - segment.start)
                if magic == BLANK_MAGIC:
                    offset = segment.end
                    break
                if not FIXED_SIZE_V1 <= size <= limit - offset:
                    expected = f"size {FIXED_SIZE_V1} to {limit - offset}, as it was found before"
                    at = offset - segment.start
                    raise StoreFormatError(segment.file.path, at, expected, f"{size}")
                yield offset, size
                offset += size

    def _sealed_size(self, phy_offset: int) -> int:
        """The size that an old record states whose head is as it was written; 0 of any other."""
        end = phy_offset + PHY_OFFSET_AT + 8
        if not self.old.is_sealed(phy_offset, end):
            return 0
        data = self.read(phy_offset, end - phy_offset)
        is_head = int.from_bytes(data[PHY_OFFSET_AT:]) == phy_offset
        return int.from_bytes(data[:4]) if is_head else 0

    # -- writing ------------------------------------------------------------------------------

    def append(self, segment_starts: Sequence[int], writes: Sequence[LogWrite]) -> None:
        """Write records behind the end of the data: all of them or, after an error, none.

        Args:
            segment_starts: Segments to begin.
            writes: What to write, ascending from `max_offset` without gaps but for blank tails.

        Raises:
            OSError: The disk did not take it; nothing has changed.
            StoreFailedError: It did not, and what was written could not be removed again.
        """
        end = self.max_offset
        try:
            for start in segment_starts:
                self._files.start_segment(start)
            for write in writes:
                self._files.write(write.offset, write.data)
        except OSError as error:
            try:
                self._undo(end, writes)
            except OSError as second:
                raise StoreFailedError(f"{self.directory}: at {end}: {error}") from second
            raise

    def _undo(self, end: int, writes: Sequence[LogWrite]) -> None:
        """Remove what a failed append wrote.

        Bytes left behind would be whole records at their right positions: a later, shorter append
        followed by a crash would bring them back.
        """
        self._files.set_end(end)
        for write in writes:
            segment = self._files.segment_at(write.offset)
            if segment is not None:
                at, zeros = write.offset - segment.start, bytes(len(write.data))
                # Where nothing was written blocks may be missing, which a full disk does not have.
                if segment.file.read(at, len(zeros)) != zeros:
                    segment.file.write(at, zeros)

    def repair(self, phy_offset: int, record: bytes) -> None:
        """Write a record again where it stands, as it was; durable after ``sync_now``.

        Raises:
            OSError: The disk did not take it.
        """
        segment = self._files.segment_at(phy_offset)
        assert segment is not None
        segment.file.write(phy_offset - segment.start, record)

    def set_end(self, end: int, *, is_sealed: bool = False) -> None:
        """Let the data end at a position, and the seals if they do not; see `OldBytes.cut`."""
        self._files.set_end(end)
        self.old.cut(end, is_sealed=is_sealed)
        self.places.forget(end)

    def zero_tail(self) -> None:
        """Zero what stands behind the end of the data, up to `ZERO_RUN_SIZE` bytes of zeros.

        Raises:
            OSError: The disk did not take it.
        """
        segment = self._files.segment_at(self.max_offset)
        if segment is None:
            return
        zero_run = 0
        at = self.max_offset - segment.start
        while at < segment.size and zero_run < ZERO_RUN_SIZE:
            zeros = _ZEROS[: segment.size - at]
            if segment.file.read(at, len(zeros)) == zeros:
                zero_run += len(zeros)
            else:
                segment.file.write(at, zeros)
                zero_run = 0
            at += len(zeros)

    def sync_now(self, first: int) -> None:
        """Make everything from a position on durable, and the names of the segments (blocking).

        It is written again first, since it may be another process's that is trusted here.
        """
        self._files.rewrite(first)
        if self._files.segments:
            files = [segment.file for segment in self._files.segments if segment.end > first]
            self._disk.sync_now(*files)
            self._disk.sync_dir_now(self.directory)

    async def flush(self) -> None:
        """Make everything appended so far durable.

        Raises:
            OSError: A sync failed; it must not be retried.
        """
        await self._files.flush()

    async def flush_seals(self) -> None:
        """Make the seals durable.

        Raises:
            OSError: A sync failed; it must not be retried.
        """
        await self._files.flush_seals()

    def delete_before(self, phy_offset: int) -> int:
        """Remove segments that end at or before a position, never the newest; the count removed."""
        return self._files.delete_before(phy_offset)

    def close(self) -> None:
        """Give the files back; nothing is written."""
        self._files.close()
