"""The units of one consume queue as its files have them, whatever their state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import attrs
import numpy as np

from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.queue_check import LMQ_PREFIX
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.queue_unit import FILLER_SIZE, UNIT
from timermq.timerstore.record_places import RecordPlaces
from timermq.timerstore.store_options import StoreOptions

from .segment_row import SegmentRow

BLOCK_COUNT = 128
"""Units read at a time while the log is walked: 2.5 kB a queue."""
SCAN_COUNT = 4096
"""Units read at a time where nothing else is read."""

RawUnit = tuple[int, int, int]
"""Position, size, tags code."""


@attrs.define(eq=False)
class QueueUnits:
    """Reads units near each other cheaply; no file stays open."""

    row: SegmentRow
    _first: int = -1
    _block: bytes = b""

    @classmethod
    def of(cls, disk: Disk, root: str, topic: str, queue_id: int, segment_size: int) -> QueueUnits:
        """The units of a queue, which need not be there."""
        return cls(SegmentRow(disk, root, queue_directory(topic, queue_id), segment_size))

    @property
    def first_offset(self) -> int:
        """Queue offset of the first unit that there is a file for."""
        return self.row.start // UNIT.size

    def first_shown(self) -> int:
        """Queue offset of the first unit that is no filler."""
        first = self.first_offset
        while (unit := self.unit(first)) is not None and is_filler(unit):
            first += 1
        return first

    def first_from(self, position: int) -> int:
        """Queue offset of the first unit of a record at this position or behind it.

        Where there is none it is that of the first place without a unit, or behind the files.
        """
        end = self.row.end // UNIT.size
        for first, block in self.blocks(self.first_offset, end):
            is_there = (block["phy_offset"] >= position) & (block["size"] != FILLER_SIZE)
            is_found = is_there | (block["size"] <= 0)
            if is_found.any():
                self.row.close()
                return first + int(is_found.argmax())
        return end

    def unit(self, offset: int) -> RawUnit | None:
        """The unit of a queue offset; None where the files end, or are zero."""
        at = (offset - self._first) * UNIT.size
        if not 0 <= at < len(self._block) or self._first < 0:
            self._first, at = offset, 0
            self._block = self.row.read(offset * UNIT.size, BLOCK_COUNT * UNIT.size)
            self.row.close()
        if len(self._block) < at + UNIT.size:
            return None
        phy_offset, size, tags_code = UNIT.unpack(self._block, at)
        return (phy_offset, size, tags_code) if size > 0 else None

    def blocks(self, first: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """Units in [first, end) as arrays of ``UNIT.dtype``: (queue offset of the first, units)."""
        while first < end:
            data = self.row.read(first * UNIT.size, min(SCAN_COUNT, end - first) * UNIT.size)
            units = np.frombuffer(data[: len(data) // UNIT.size * UNIT.size], UNIT.dtype)
            if len(units):
                yield first, units
            # Behind what a short file has the next segment goes on.
            next_start = (first * UNIT.size // self.row.segment_size + 1) * self.row.segment_size
            first = first + len(units) if len(units) else next_start // UNIT.size
        self.row.close()


class AskedQueues:
    """The queues of a store that a walk over a damaged log asks: opened then, each as it is.

    Args:
        disk: The disk of the store.
        root: Its directory.
        options: Its settings.
        register: The list of its queues.
    """

    def __init__(
        self, disk: Disk, root: str, options: StoreOptions, register: QueueRegister
    ) -> None:
        self.places = RecordPlaces(self._opened, register)
        """The places of records that they tell."""
        segment_size = options.mapped_file_size_consume_queue
        self._queues = ConsumeQueueTable(disk, root, segment_size=segment_size, read_only=True)
        self._is_opened = False

    def _opened(self) -> ConsumeQueueTable:
        """One whose files are damaged is empty."""
        if not self._is_opened:
            self._is_opened = True
            with suppress(StoreFormatError):
                self._queues.recover()
        return self._queues

    def close(self) -> None:
        """Close the files of the queues; nothing is written."""
        self._queues.close()


def queue_directory(topic: str, queue_id: int) -> str:
    """Path of a queue under the store's root."""
    return f"consumequeue/{topic}/{queue_id}"


def queues_with_files(disk: Disk, root: str) -> Iterator[tuple[str, int]]:
    """Topic and number of every queue that has a directory."""
    base = f"{root}/consumequeue"
    for topic in disk.list_dir(base):
        if not topic.startswith(LMQ_PREFIX) and disk.is_dir(f"{base}/{topic}"):
            for name in disk.list_dir(f"{base}/{topic}"):
                if name.isascii() and name.isdigit():
                    yield topic, int(name)


def is_filler(unit: RawUnit) -> bool:
    """Whether a unit only fills a first segment up to the first message."""
    return unit[1] == FILLER_SIZE
