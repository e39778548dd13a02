"""The content of a consume queue's files, as far as the units themselves say.

The units of a queue stand one behind the other, their records ascend in the log, and what was
never written is zero. So the first unit that cannot be true ends the queue, if nothing stands
behind it. Something behind it is what a power cut left of units that were not synced, or RocketMQ
of units that it had cut; or it is the rest of the queue, and the unit is damaged. The log knows:
``queue_check``.

A disk writes whole sectors, in any order. So a power cut may also have left a part of a unit in
which a sector ends, and zeros for the rest. A process that is killed while it writes leaves the
front of a unit, of any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

import attrs
import numpy as np
from numpy.typing import NDArray

from .disk import Disk
from .mapped_file_queue import NAME_DIGITS, MappedFileQueue
from .queue_unit import FILLER_SIZE, NATIVE_UNIT, UNIT, Units
from .seal_page import SECTOR_SIZE

SCAN_COUNT = 4096
"""Units that are checked in one step."""


@attrs.define
class UnitScan:
    """The units found from a queue offset on."""

    end: int
    """Queue offset of the first unit that cannot be true."""
    written_end: int
    """Behind the last unit that is not zero; ``end`` when nothing stands behind it."""
    lost_from_py: int | None = None
    """Start of the records of units behind ``end``, or of what is left there of a unit, in
    the log, at the latest; -1 when that cannot be said; None when nothing tells of any."""


@attrs.frozen(eq=False)
class _Block:
    """Units that stand side by side in one file."""

    first: int
    """Queue offset of the first one."""
    at: int
    """Its offset in the file."""
    data: bytes
    units: Units

    def behind(self, count: int) -> _Block:
        """Without some at the front."""
        size = count * UNIT.size
        return _Block(self.first + count, self.at + size, self.data[size:], self.units[count:])

    def are_written(self) -> NDArray[np.bool_]:
        """Whether each is another than zeros."""
        phy, size, tags_code = (self.units[name] for name in UNIT.names)
        return np.asarray((size != 0) | (phy != 0) | (tags_code != 0))

    def are_parts(self) -> NDArray[np.bool_]:
        """Whether a sector ends within each, and one side of it alone holds anything."""
        places = np.arange(self.at, self.at + len(self.data)).reshape(-1, UNIT.size)
        is_set = np.frombuffer(self.data, np.uint8).reshape(-1, UNIT.size) != 0
        is_head = places // SECTOR_SIZE == places[:, :1] // SECTOR_SIZE
        is_one_sided = (is_set & is_head).any(axis=1) != (is_set & ~is_head).any(axis=1)
        return np.asarray(is_one_sided & ~is_head.all(axis=1))

    def begins_with_front(self) -> bool:
        """Whether of the first unit nothing is there behind its position."""
        return not any(self.data[UNIT.offset_of("size") : UNIT.size]) and any(
            self.data[: UNIT.size]
        )


@attrs.define
class _Behind:
    """The content from the end of a queue on."""

    is_left: bool = True
    """Whether the unit at the end was never written, or is one that a power cut has left."""
    is_unplaced: bool = False
    """Whether a part of a unit was left without the position of its record."""
    lowest_py: int | None = None
    """Lowest position in the log that a unit points to."""

    @property
    def lost_from_py(self) -> int | None:
        """As ``UnitScan.lost_from_py``, from what was looked at so far."""
        is_unknown = not self.is_left or (self.is_unplaced and self.lowest_py is None)
        return -1 if is_unknown else self.lowest_py

    def look(self, block: _Block, phy_end: int, *, is_end: bool) -> None:
        """Take note of some units; the record of the last good one ends at ``phy_end``."""
        phy, size, is_written = block.units["phy_offset"], block.units["size"], block.are_written()
        is_part = block.are_parts()
        is_part[0] |= is_end and block.begins_with_front()
        # Of a part that begins within the position less is there than was written.
        is_placed = np.where(is_part, phy >= max(phy_end, 1), (size > 0) & (phy >= 0))
        if is_end:
            self.is_left = bool(is_part[0] or not is_written[0])
            self.is_unplaced = bool(is_part[0])
        self.is_unplaced |= bool((is_part & ~is_placed & (size > 0)).any())
        if is_placed.any():
            lowest = int(phy[is_placed].min())
            self.lowest_py = lowest if self.lowest_py is None else min(lowest, self.lowest_py)


def scan_units(files: MappedFileQueue, first: int) -> UnitScan:
    """Look through the units from a queue offset on, up to the end of the files.

    Raises:
        OSError: A file cannot be read.
    """
    scan, behind = UnitScan(first, first), _Behind()
    phy_end, is_whole = 0, True
    for block in _blocks(files, first):
        rest = block
        if is_whole and block.first == scan.end:
            count, phy_end = _count_valid(block.units, phy_end)
            scan.end = scan.written_end = block.first + count
            rest = block.behind(count)
        if not len(rest.units):
            continue
        (written,) = np.nonzero(rest.are_written())
        if len(written):
            behind.look(rest, phy_end, is_end=is_whole and rest.first == scan.end)
            scan.written_end = rest.first + int(written[-1]) + 1
        is_whole = False
    scan.lost_from_py = behind.lost_from_py
    return scan


@attrs.frozen
class LastUnits:
    """The newest file's units of a queue whose files are no segments, or cannot be read."""

    first: int = 0
    """Queue offset of the file's first unit."""
    data: bytes = b""
    """Its bytes up to the last unit that is not zero, as far as they can be read."""
    end: int = 0
    """Behind that unit; where the file does not tell, the end that it can have."""
    is_told: bool = True
    """Whether the file tells its end: it can be read, and was not cut short among its units."""

    def unit(self, offset: int) -> bytes:
        """The unit of a queue offset; empty where the file holds none."""
        start = (offset - self.first) * UNIT.size
        return self.data[start : start + UNIT.size] if start >= 0 else b""


def last_units(disk: Disk, directory: str, segment_size: int) -> LastUnits:
    """Read the newest file that has a segment's name, for files that are no segments.

    One without a length was being created, and holds nothing.
    """
    names = disk.list_dir(directory)
    name = max((one for one in names if len(one) == NAME_DIGITS and one.isdigit()), default=None)
    if name is None:
        return LastUnits()
    first, data = int(name) // UNIT.size, b""
    is_read = False
    with suppress(OSError), closing(disk.open(f"{directory}/{name}", read_only=True)) as file:
        data = file.read(0, file.size())
        is_read = True
    count = -(-len(data.rstrip(b"\0")) // UNIT.size)
    is_cut = 0 < len(data) < segment_size and len(data) < (count + 1) * UNIT.size
    if is_read and not is_cut:
        return LastUnits(first, data[: count * UNIT.size], first + count)
    return LastUnits(first, data, first + segment_size // UNIT.size, is_told=False)


def has_file_of(disk: Disk, directory: str, size: int) -> bool:
    """Whether a file of a directory has a length; those that cannot be opened have none."""
    for name in disk.list_dir(directory):
        with suppress(OSError), closing(disk.open(f"{directory}/{name}", read_only=True)) as file:
            if file.size() == size:
                return True
    return False


def _blocks(files: MappedFileQueue, first: int) -> Iterator[_Block]:
    """All units; what no block of a file holds is left out: it is zero."""
    for segment in files.segments:
        at = max(first * UNIT.size - segment.start, 0)
        while at < segment.size:
            found = segment.file.next_data(at)
            at = max(at, found - found % UNIT.size)
            if at >= segment.size:
                break
            data = segment.file.read(at, min(SCAN_COUNT * UNIT.size, segment.size - at))
            data = data[: len(data) // UNIT.size * UNIT.size]
            units = np.frombuffer(data, UNIT.dtype).astype(NATIVE_UNIT)
            yield _Block((segment.start + at) // UNIT.size, at, data, units)
            at += SCAN_COUNT * UNIT.size


def _count_valid(units: Units, phy_end: int) -> tuple[int, int]:
    """How many units from the front can be true, and where the record of the last of them ends."""
    phy, size = units["phy_offset"], units["size"]
    is_filler = (size == FILLER_SIZE) & (phy == 0)
    ends = np.where(is_filler, 0, phy + size)
    before = np.concatenate(([phy_end], ends[:-1]))
    bad = np.flatnonzero((size <= 0) | (phy < before))
    count = int(bad[0]) if len(bad) else len(units)
    return count, int(ends[count - 1]) if count else phy_end
