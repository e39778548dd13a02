"""Consume queues: for each topic and queue, where its messages stand in the commit log.

A queue is a row of 20-byte units in files ``consumequeue/<topic>/<queueId>/<20 digits>``; the
unit of queue offset n stands at byte 20 n:

    +----------------+----------+----------------+
    | phy offset i64 | size i32 | tags code i64  |
    +----------------+----------+----------------+

Queues are derived data: recovery makes their newest part again from the log. A segment is created
sparse, so an all-zero unit is one that was never written. A queue whose first message is not
number 0 (older segments of the log are gone) starts with filler units that no reader sees.
Corresponds to RocketMQ's ConsumeQueue.
"""

import attrs
import numpy as np

from .disk import Disk
from .errors import StoreFailedError, StoreFormatError
from .mapped_file_queue import MappedFileQueue
from .queue_unit import FILLER, FILLER_SIZE, NATIVE_UNIT, UNIT, Units
from .unit_scan import LastUnits, last_units, scan_units

RECOVER_SEGMENT_COUNT = 3
"""Newest segments that are checked when a queue is opened; older ones were complete long ago."""
_NO_UNITS: Units = np.empty(0, NATIVE_UNIT)


@attrs.define(eq=False)
class QueueUnits:
    """Units of one queue that a batch of records has made, to be appended together."""

    queue: "ConsumeQueue"
    first_offset: int
    """Queue offset of the first unit."""
    units: bytes
    end: int
    """End of the last unit's record in the commit log."""


class QueueGapError(StoreFormatError):
    """A unit does not follow the newest unit of its queue: units in between are missing."""


class ConsumeQueue:
    """The units of one topic and queue.

    Args:
        disk: The disk of the files.
        directory: ``<root>/consumequeue/<topic>/<queueId>``.
        topic: Topic.
        queue_id: Queue.
        segment_size: Bytes of one file, a multiple of 20.
        read_only: Nothing is written; appended units stay in memory.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        queue_id: int,
        *,
        segment_size: int,
        read_only: bool = False,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.directory = directory
        self.min_offset = 0
        """Queue offset of the oldest readable unit."""
        self.max_offset = 0
        """Queue offset of the next unit: those in [min_offset, max_offset) are readable."""
        self.max_physic_offset = -1
        """End in the commit log of the newest unit's record, -1 while there is none."""
        self.written_end = 0
        """Behind the last unit that ``recover`` found behind the end; 0 when there is none."""
        self.last = LastUnits()
        """The units that ``lose`` found in the newest file."""
        self.lost_from_py: int | None = None
        """Position of the first record of such units, -1 when that cannot be said."""
        self._disk = disk
        self._segment_size = segment_size
        self._read_only = read_only
        self._files = self._new_files()
        self._tail = bytearray()
        """With read_only: the units from _tail_first on, which no file holds."""
        self._tail_first = 0

    @property
    def is_empty(self) -> bool:
        """Whether no unit is readable."""
        return self.min_offset >= self.max_offset

    @property
    def has_files(self) -> bool:
        """Whether a file of the queue is open."""
        return bool(self._files.segments)

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} {self.min_offset}..{self.max_offset}>"

    def _new_files(self) -> MappedFileQueue:
        return MappedFileQueue(
            self._disk,
            self.directory,
            self._segment_size,
            reserve=False,
            read_only=self._read_only,
        )

    # -- reading ------------------------------------------------------------------------------

    def units(self, first: int, count_max: int) -> Units:
        """Read units in queue order.

        Args:
            first: Queue offset of the first one.
            count_max: Most units wanted.

        Returns:
            Units from ``first`` on: fewer than wanted at the end of the queue and where a segment
            ends, none when ``first`` is not in [min_offset, max_offset).
        """
        data = self.packed(first, count_max)
        # To set a conversion up takes as long as to convert a hundred units.
        return np.frombuffer(data, UNIT.dtype).astype(NATIVE_UNIT) if data else _NO_UNITS

    def packed(self, first: int, count_max: int) -> bytes:
        """The bytes of what ``units`` gives."""
        count = min(count_max, self.max_offset - first)
        return self._read(first, count) if first >= self.min_offset and count > 0 else b""

    def _read(self, first: int, count: int) -> bytes:
        """Bytes of units, cut at the end of their segment or of the files.

        Not through a map: there are as many queues as the process may have files, or maps.
        """
        if self._read_only and first >= self._tail_first:
            at = (first - self._tail_first) * UNIT.size
            return bytes(self._tail[at : at + count * UNIT.size])
        offset = first * UNIT.size
        return self._files.read_file(offset, min(count * UNIT.size, self._room_at(offset)))

    def _room_at(self, offset: int) -> int:
        """Bytes from a byte of the files to the end of its segment."""
        return self._segment_size - offset % self._segment_size

    def find_phy_offset(self, phy_offset: int, first: int, end: int) -> int:
        """Find the first unit in [first, end) whose record stands at ``phy_offset`` or later.

        Fillers count as standing before every record, and units that were never written (a power
        cut can leave them before others) behind all: nothing from them on is true. The answer is
        ``end`` when there is none.
        """
        while first < end:
            middle = (first + end) // 2
            unit_phy, size, _ = UNIT.unpack(self._read(middle, 1))
            if size == FILLER_SIZE or (size > 0 and unit_phy < phy_offset):
                first = middle + 1
            else:
                end = middle
        return first

    # -- appending ----------------------------------------------------------------------------

    def append(self, first_offset: int, units: bytes, end: int) -> None:
        """Append units; those that the queue holds already are skipped.

        Nothing becomes readable unless everything was written.

        Args:
            first_offset: Queue offset of the first unit.
            units: Packed units.
            end: End in the commit log of the last unit's record.

        Raises:
            QueueGapError: Units before ``first_offset`` are missing.
            OSError: The disk did not take them.
            StoreFailedError: What stood in the files of a queue that begins again may come back.

        Source: ConsumeQueue.putMessagePositionInfo.
        """
        repeated = self.max_offset - first_offset
        if self.is_empty and repeated:
            self.begin_at(first_offset)
        elif repeated > 0:
            units = units[repeated * UNIT.size :]
            if not units:
                return
            first_offset += repeated
        elif repeated < 0:
            raise QueueGapError(
                self.directory,
                self.max_offset * UNIT.size,
                f"unit {self.max_offset}",
                f"unit {first_offset}",
            )
        if self._read_only:
            self._tail += units
        else:
            self._write(first_offset * UNIT.size, units)
        self.max_offset = first_offset + len(units) // UNIT.size
        self.max_physic_offset = end

    def _write(self, offset: int, units: bytes) -> None:
        while units:
            room = self._room_at(offset)
            self._files.write(offset, units[:room])
            offset += room
            units = units[room:]

    def begin_at(self, first_offset: int) -> None:
        """Let a queue without readable units begin at an offset, behind filler units."""
        assert self.is_empty
        if self._read_only:
            self._tail.clear()
            self._tail_first = first_offset
        else:
            first = first_offset * UNIT.size
            segment_start = first - first % self._segment_size
            if not segment_start <= self._files.wrote <= first or not self._files.segments:
                self._remove_files()
            filled = max(segment_start, self._files.wrote)
            self._write(filled, FILLER * (first_offset - filled // UNIT.size))
        self.min_offset = self.max_offset = first_offset

    def written(self, offset: int) -> bytes:
        """The unit of a queue offset as a file has it, also behind the end; empty without one."""
        found = self._files.read_file(offset * UNIT.size, UNIT.size)
        return found if len(found) == UNIT.size else self.last.unit(offset)

    def put_right(self, offset: int, unit: bytes) -> None:
        """Write a damaged unit as it was, durably (blocking); OSError if the disk refused."""
        segment = self._files.segment_at(offset * UNIT.size)
        assert segment is not None
        segment.file.write(offset * UNIT.size - segment.start, unit)
        self._disk.sync_now(segment.file)

    # -- recovery and cleaning ----------------------------------------------------------------

    def recover(self) -> None:
        """Find the end of the units: the first one that cannot be true ends the queue.

        Nothing is written: what stands behind the end stays until ``drop_behind`` or
        ``begin_again``. The newest three segments are checked, and those before them as long as
        nothing is in them: a power cut may have left all three without units.

        Raises:
            StoreFormatError: A file is not a segment of this queue, or one is missing.
            OSError: A file cannot be opened or read.

        Source: ConsumeQueue.recover; that positions ascend is checked here in addition.
        """
        self._files.load()
        self._tail_first = self._files.wrote // UNIT.size
        self.min_offset = end = self._files.min_offset // UNIT.size
        segments = self._files.segments
        for segment in reversed(segments[: max(len(segments) - RECOVER_SEGMENT_COUNT + 1, 1)]):
            scan = scan_units(self._files, segment.start // UNIT.size)
            end = scan.end
            if scan.written_end > end:
                self.written_end = scan.written_end
                self.lost_from_py = scan.lost_from_py
            if end > segment.start // UNIT.size:
                break
        if self.written_end > end:
            self._show_to(end)
        else:
            self._set_end(end)

    def lose(self) -> None:
        """Take nothing of the files, which are damaged: ``begin_again`` removes them."""
        self._files.close()
        self.lost_from_py = -1
        self._files = self._new_files()
        self.min_offset = self.max_offset = self._tail_first = 0
        self.max_physic_offset = -1
        self.last = last_units(self._disk, self.directory, self._segment_size)
        self.written_end = self.last.end

    def is_doubtful(self, before_py: int) -> bool:
        """Whether units behind the end may belong to the queue, whose end then is damage.

        Args:
            before_py: Units of records before it were durable: a power cut has taken none of them.
        """
        return self.lost_from_py is not None and self.lost_from_py < before_py

    def drop_behind(self) -> None:
        """Zero what stands behind the end: later units would make it look valid."""
        if self.written_end > self.max_offset:
            if not self._read_only:
                self._zero(self.max_offset * UNIT.size, self.written_end * UNIT.size)
            self._set_end(self.max_offset)
        self._forget_behind()

    def begin_again(self) -> None:
        """Forget all units, to be made again; the files are removed, durably (blocking)."""
        if self._read_only:
            self._files.close()
            self._files = self._new_files()
            self._tail.clear()
        else:
            self._remove_files()
        self.min_offset = self.max_offset = self._tail_first = 0
        self.max_physic_offset = -1
        self._forget_behind()

    def _forget_behind(self) -> None:
        self.written_end = 0
        self.lost_from_py = None

    def _set_end(self, end: int) -> None:
        self._files.set_end(end * UNIT.size)
        self._show_to(end)

    def _show_to(self, end: int) -> None:
        self.max_offset = end
        self.min_offset = min(self.min_offset, end)
        self._tail_first = end
        self.max_physic_offset = self._last_physic_offset()

    def cut(self, phy_offset: int) -> None:
        """Remove the units whose records stand at or after a position; their place is zeroed.

        Stale units must not remain behind the end: later ones would make them look valid.

        Source: ConsumeQueue.truncateDirtyLogicFiles.
        """
        if self.max_physic_offset <= phy_offset:
            return
        end = self.find_phy_offset(phy_offset, self.min_offset, self.max_offset)
        if not self._read_only:
            self._zero(end * UNIT.size, self.max_offset * UNIT.size)
        self._set_end(end)

    def _zero(self, begin: int, end: int) -> None:
        """Zero units in the segment of ``begin``; later segments are removed anyway."""
        segment = self._files.segment_at(begin)
        if segment is not None:
            end = min(end, segment.start + self._segment_size)
            self._files.write(begin, bytes(end - begin))

    def _last_physic_offset(self) -> int:
        if self.is_empty:
            return -1
        phy_offset, size, _ = UNIT.unpack(self._read(self.max_offset - 1, 1))
        return -1 if size == FILLER_SIZE else phy_offset + size

    def correct_min_offset(self, min_phy_offset: int) -> None:
        """Move min_offset to the first unit whose record the log still holds.

        Source: ConsumeQueue.correctMinOffset.
        """
        self.min_offset = self.find_phy_offset(min_phy_offset, self.min_offset, self.max_offset)

    def delete_before(self, min_phy_offset: int) -> int:
        """Remove segments whose records the log no longer holds, never the newest.

        Returns:
            How many.

        Source: MappedFileQueue.deleteExpiredFileByOffset.
        """
        self.correct_min_offset(min_phy_offset)
        return self._files.delete_before(self.min_offset * UNIT.size)

    # -- files --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Make every appended unit durable."""
        await self._files.flush()

    def _remove_files(self) -> None:
        """Remove every segment, durably: none may come back beside later ones (blocking).

        Raises:
            StoreFailedError: That they are gone was not synced. Retried it would succeed.
        """
        self._files.close()
        names = self._disk.list_dir(self.directory)
        for name in names:
            self._disk.remove(f"{self.directory}/{name}")
        if names:
            try:
                self._disk.sync_dir_now(self.directory)
            except OSError as error:
                raise StoreFailedError(f"{self.directory}: {error}") from error
        self._files = self._new_files()

    def remove(self) -> None:
        """Remove the files and their directory (blocking)."""
        self._remove_files()
        self._disk.remove_dir(self.directory)

    def close(self) -> None:
        """Give the files back; nothing is written."""
        self._files.close()
