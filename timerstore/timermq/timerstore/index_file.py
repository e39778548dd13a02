"""One index file: from the hash of a key to where its messages stand.

Entries are appended at once; the slots of the file that is being filled are kept in memory and
written back by ``flush``. The header comes last, when entries and slots are durable, so it never
counts what a power cut can take. Layout: ``index_layout``; what is true after a crash:
``index_recovery``.

Source: Java ``IndexFile``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import trio
from numpy.typing import NDArray

from .disk import Disk, File, is_for_a_while, is_out_of_files
from .errors import StoreError, StoreFormatError
from .index_layout import (
    ENTRY,
    ENTRY_DTYPE,
    HEADER,
    SLOT_SIZE,
    TIME_DIFF_MAX,
    IndexHeader,
    file_size,
    read_header,
)
from .index_recovery import recover_slots
from .index_slots import SlotTable

WALK_COUNT_MAX = 1 << 20
"""Entries of one chain that a query looks at: about a second."""


class CutWalkError(StoreError):
    """A chain has more entries than are looked at: those behind them are not known.

    Attributes:
        count: Entries that were looked at.
    """

    def __init__(self, path: str, count: int) -> None:
        super().__init__(f"{path}: expected at most {count} entries in one slot, found more")
        self.count = count


class IndexFile:
    """An open index file; ``create`` and ``open`` make one.

    Args:
        file: The file, of its full length.
        header: What it holds.
        slot_count: Slots.
        entry_count_max: Entries, entry 0 included.
        table: Slots of a file that is being filled; None: they are read from the file.
        written_header: The header that is durable for certain.
    """

    def __init__(
        self,
        file: File,
        header: IndexHeader,
        *,
        slot_count: int,
        entry_count_max: int,
        table: SlotTable | None,
        written_header: IndexHeader | None,
    ) -> None:
        self.file = file
        self.header = header
        self.slot_count = slot_count
        self.entry_count_max = entry_count_max
        self._table = table
        self._written_header = written_header

    @classmethod
    def create(
        cls, disk: Disk, path: str, *, slot_count: int, entry_count_max: int, after: IndexHeader
    ) -> IndexFile:
        """Make an empty file that goes on where the file with header ``after`` ends.

        Raises:
            OSError: The disk did not take it; no file is left behind.
        """
        file = disk.open(path, create=True)
        try:
            file.truncate(file_size(slot_count, entry_count_max))
        except OSError:
            file.close()
            disk.remove(path)
            raise
        header = IndexHeader(
            begin_timestamp=after.end_timestamp,
            end_timestamp=after.end_timestamp,
            begin_phy_offset=after.end_phy_offset,
            end_phy_offset=after.end_phy_offset,
        )
        return cls(
            file,
            header,
            slot_count=slot_count,
            entry_count_max=entry_count_max,
            table=SlotTable(slot_count),
            written_header=header,
        )

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        slot_count: int,
        entry_count_max: int,
        filling: bool,
        read_only: bool = False,
    ) -> IndexFile:
        """Open a file; ``filling`` brings its slots into memory and checks them.

        What is read may stand in the page cache only: the process before was killed before it had
        synced, or its sync failed. So the first flush writes the header once more.

        Raises:
            StoreFormatError: Its length is not that of the settings, or its header is not one.
        """
        file = disk.open(path, read_only=read_only)
        table: SlotTable | None = None
        try:
            header = read_header(file, slot_count, entry_count_max)
            if filling:
                table, header = recover_slots(file, header, slot_count)
        except (OSError, StoreFormatError):
            file.close()
            raise
        return cls(
            file,
            header,
            slot_count=slot_count,
            entry_count_max=entry_count_max,
            table=table,
            written_header=None,
        )

    @property
    def end_py(self) -> int:
        """Position of the last entry's message."""
        return self.header.end_phy_offset

    @property
    def end_ms(self) -> int:
        """Store time of the last entry."""
        return self.header.end_timestamp

    @property
    def is_empty(self) -> bool:
        """Whether it holds no entry."""
        return self.header.index_count <= 1

    @property
    def is_written(self) -> bool:
        """Whether header and slots in memory are durable."""
        is_dirty = self._table is not None and self._table.is_dirty
        return self.header == self._written_header and not is_dirty

    def room(self) -> int:
        """Entries that it still takes: numbers 1 to the maximum minus 1 are used."""
        return self.entry_count_max - self.header.index_count

    def append(
        self, hashes: NDArray[np.int64], offsets_py: NDArray[np.int64], stores_ms: NDArray[np.int64]
    ) -> None:
        """Add entries in the order of the log: one to ``room()`` of them.

        Args:
            hashes: As ``key_hashes`` gives them.
            offsets_py: Positions of the messages, ascending.
            stores_ms: Their store times.

        Raises:
            OSError: The disk did not take them; nothing has changed.

        Source: Java ``IndexFile.putKey``. There the seconds of a file's first entry are counted
            from the end of the file before, although its begin time is the entry's own; here they
            are 0.
        """
        old, count = self.header, len(hashes)
        assert self._table is not None
        assert 0 < count <= self.room()
        begin_ms = int(stores_ms[0]) if self.is_empty else old.begin_timestamp
        slots = hashes % self.slot_count
        numbers = np.arange(old.index_count, old.index_count + count, dtype=np.int32)
        previous, fresh_count = self._table.link(slots, numbers)
        seconds = (stores_ms - begin_ms) // 1000
        entries = np.empty(count, ENTRY_DTYPE)
        entries["key_hash"] = hashes
        entries["phy_offset"] = offsets_py
        entries["time_diff"] = np.clip(seconds, 0, TIME_DIFF_MAX) if begin_ms > 0 else 0
        entries["previous"] = previous
        self.file.write(self._entry_at(old.index_count), entries.tobytes())
        self._table.put(slots, numbers)
        self.header = IndexHeader(
            begin_timestamp=begin_ms,
            end_timestamp=int(stores_ms[-1]),
            begin_phy_offset=int(offsets_py[0]) if self.is_empty else old.begin_phy_offset,
            end_phy_offset=int(offsets_py[-1]),
            hash_slot_count=old.hash_slot_count + fresh_count,
            index_count=old.index_count + count,
        )

    def find(self, wanted_hash: int, *, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Positions of messages with this hash whose entry's time is in [begin, end], newest first.

        Hashes collide: the caller compares the real key. A chain ends where a link does not
        descend, and at the first entry before ``begin_ms``.

        Raises:
            CutWalkError: The chain goes on behind ``WALK_COUNT_MAX`` entries.

        Source: Java ``IndexFile.selectPhyOffset``.
        """
        if not self._overlaps(begin_ms, end_ms):
            return
        entry_at, base = self._entries(), self._entry_at(0)
        file_begin_ms, above = self.header.begin_timestamp, self.header.index_count
        number = self._newest_of(wanted_hash % self.slot_count)
        count = 0
        while 0 < number < above:
            if count == WALK_COUNT_MAX:
                raise CutWalkError(self.file.path, count)
            count += 1
            entry_hash, offset_py, time_diff, previous = entry_at(base + number * ENTRY.size)
            entry_ms = file_begin_ms + time_diff * 1000
            if time_diff < 0 or entry_ms < begin_ms:
                break
            if entry_hash == wanted_hash and entry_ms <= end_ms:
                yield offset_py
            number, above = previous, number

    def newest_hashes(self, phy_offset: int) -> list[int]:
        """Key hashes of the newest entries, as far as they are of the message at ``phy_offset``."""
        hashes: list[int] = []
        for number in range(self.header.index_count - 1, 0, -1):
            entry_hash, entry_offset_py, _, _ = self._entry(number)
            if entry_offset_py != phy_offset:
                break
            hashes.append(entry_hash)
        return hashes

    def first_hash(self, phy_offset: int) -> int | None:
        """Key hash of the first entry of the message at a position; None when it has none here."""
        first, end = 1, self.header.index_count
        while first < end:
            middle = (first + end) // 2
            if self._entry(middle)[1] < phy_offset:
                first = middle + 1
            else:
                end = middle
        if first == self.header.index_count:
            return None
        entry_hash, entry_offset_py = self._entry(first)[:2]
        return entry_hash if entry_offset_py == phy_offset else None

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        data = self.file.read(self._entry_at(number), ENTRY.size)
        entry: tuple[int, int, int, int] = ENTRY.struct.unpack(data)
        return entry

    async def flush(self, disk: Disk) -> bool:
        """Make what was added before the call durable: entries and slots, then the header.

        Entries may be added meanwhile; they belong to the next flush.

        Returns:
            Whether it is durable; not when the disk is full. Then the next flush tries again.

        Raises:
            OSError: A sync failed, which must not be retried, or a write, not for want of room.

        Cancellation: The header on the disk counts only what is durable.
        """
        if self.is_written:
            return True
        header = self.header
        try:
            await self._write_slots()
        except OSError as error:
            if not is_for_a_while(error):
                raise
            return False
        await disk.sync(self.file)
        try:
            self.file.write(0, header.encode())
        except OSError as error:
            if not is_for_a_while(error):
                raise
            return False
        await disk.sync(self.file)
        self._written_header = header
        return True

    def release_slots(self) -> None:
        """Give up the table of a full file that is flushed; slots are read from the file."""
        assert self.is_written
        self._table = None

    async def _write_slots(self) -> None:
        table = self._table
        if table is None:
            return
        for first, end in table.dirty_runs():
            at, data = table.encode_pages(first, end)
            self.file.write(HEADER.size + at, data)
            table.mark_written(first, end)
            await trio.lowlevel.checkpoint()

    def _overlaps(self, begin_ms: int, end_ms: int) -> bool:
        header = self.header
        is_outside = header.end_timestamp < begin_ms or end_ms < header.begin_timestamp
        return not self.is_empty and not is_outside

    def _entries(self) -> Callable[[int], tuple[int, int, int, int]]:
        """The reader of the entry at a byte of the file: the map, or the file while there is none.

        A map is a further open file. Who asks for a message must not fail for want of one.
        """
        try:
            view = self.file.map()
        except OSError as error:
            if not is_out_of_files(error):
                raise
            return lambda at: ENTRY.struct.unpack(self.file.read(at, ENTRY.size))
        return lambda at: ENTRY.struct.unpack_from(view, at)

    def _newest_of(self, slot: int) -> int:
        if self._table is not None:
            return int(self._table.numbers[slot])
        # Not by the map: a page without a slot in use is a hole, see `MappedFileQueue.read_file`.
        at = HEADER.size + slot * SLOT_SIZE
        return int.from_bytes(self.file.read(at, SLOT_SIZE), "big", signed=True)

    def _entry_at(self, number: int) -> int:
        return HEADER.size + self.slot_count * SLOT_SIZE + number * ENTRY.size
