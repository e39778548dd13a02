"""How units lie in the segments of the timer log.

A unit stands at a multiple of 52 in its segment, and never across its end: where the unit and a
blank of 16 bytes do not fit any more, the blank closes the segment and the unit goes to the next::

    a segment of 250 bytes:    0      52     104    156    208     224     250
                               │ unit │ unit │ unit │ unit │ blank │ zeros │

    at 156 a unit fits, since 52 + 16 <= 94 bytes left; at 208 none does: 42 are left

The blank is written together with the unit that goes to the next segment, not before.

Source: Java ``TimerLog.append``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.mapped_file import MappedFile
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.record import BLANK_MAGIC

from .unit import BLANK, UNIT, UNIT_DTYPE, Units, are_units

SEGMENT_SIZE_MIN = UNIT.size + BLANK.size
"""Bytes: one unit and the blank behind it."""

CHUNK_COUNT = 16_384
"""Units read at a time: 0.9 MB, so that what is worked out of them stays in the processor's cache,
and little is left in the heap when millions have been read."""


def units_in(segment_size: int) -> int:
    """Units that a segment takes before its blank."""
    return (segment_size - BLANK.size) // UNIT.size


def parts(pos: int, count: int, segment_size: int) -> Iterator[tuple[int, int]]:
    """The places of ``count`` units when the log ends at ``pos``: (position, number) by segment."""
    while count:
        left = segment_size - pos % segment_size
        fitting = min(max(left - BLANK.size, 0) // UNIT.size, count)
        if fitting:
            yield pos, fitting
        count -= fitting
        pos += left


def closing(pos: int, segment_size: int) -> bytes:
    """The blank at ``pos`` and zeros up to the segment's end, for where no unit fits any more."""
    left = segment_size - pos % segment_size
    return _blank(left).ljust(left, b"\0")


def is_closed(queue: MappedFileQueue, pos: int) -> bool:
    """Whether the blank that closes its segment stands at ``pos``."""
    left = queue.segment_size - pos % queue.segment_size
    return queue.read(pos, BLANK.size) == _blank(left)


def _blank(left: int) -> bytes:
    return BLANK.pack(left, 0, BLANK_MAGIC)


def chunks(queue: MappedFileQueue, from_pos: int) -> Iterator[tuple[int, Units]]:
    """The entries at the places of units, from ``from_pos`` on: (position of the first, entries).

    A chunk lies within one segment.
    """
    for segment in queue.segments:
        yield from chunks_of(segment, max(segment.start, from_pos), queue.wrote)


def chunks_of(segment: MappedFile, pos: int, end: int) -> Iterator[tuple[int, Units]]:
    """The same of one segment, from ``pos`` to ``end`` or to where it has no more units.

    A chunk is read from the file, not from the map: that has no readahead, and after a reboot each
    4 KiB would be a read of its own.
    """
    end = min(segment.start + units_in(segment.size) * UNIT.size, end)
    while pos + UNIT.size <= end:
        count = min((end - pos) // UNIT.size, CHUNK_COUNT)
        data = segment.file.read(pos - segment.start, count * UNIT.size)
        yield pos, np.frombuffer(data, UNIT_DTYPE)
        pos += count * UNIT.size


def gather(segment: MappedFile, positions: Int64s, end: int) -> tuple[Units, Flags]:
    """The entries at positions of one segment, and which of them are units before ``end``."""
    count = units_in(segment.size)
    index, rest = np.divmod(positions - segment.start, UNIT.size)
    inside = (rest == 0) & (index >= 0) & (index < count) & (positions + UNIT.size <= end)
    # ``take`` copies a unit as a whole, indexing its nine fields one by one: ten times the time.
    units = np.frombuffer(segment.file.map(), UNIT_DTYPE, count).take(np.where(inside, index, 0))
    return units, inside & are_units(units)
