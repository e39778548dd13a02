"""What the files of a consume queue hold, as far as the units themselves say.

The units of a queue stand one behind the other, their records ascend in the log, and what was
never written is zero. So the first unit that cannot be true ends the queue, if nothing stands
behind it. Something behind it is what a power cut left of units that were not synced, or RocketMQ
of units that it had cut; or it is the rest of the queue, and the unit is damaged. The log knows:
``queue_check``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

import attrs
import numpy as np

from .disk import Disk
from .mapped_file_queue import NAME_DIGITS, MappedFileQueue
from .queue_unit import FILLER_SIZE, NATIVE_UNIT, UNIT, Units

SCAN_COUNT = 4096
"""Units that are checked in one step."""


@attrs.define
class UnitScan:
    """What was found from a queue offset on."""

    end: int
    """Queue offset of the first unit that cannot be true."""
    written_end: int
    """Behind the last unit that is not zero; ``end`` when nothing stands behind it."""
    is_end_zero: bool = True
    """Whether the unit at ``end`` was never written."""
    lowest_py: int | None = None
    """Lowest position in the log that a unit behind ``end`` points to."""


def scan_units(files: MappedFileQueue, first: int) -> UnitScan:
    """Look through the units from a queue offset on, up to the end of the files.

    Raises:
        OSError: A file cannot be read.
    """
    scan = UnitScan(first, first)
    phy_end, is_whole = 0, True
    for at, units in _blocks(files, first):
        rest, base = units, at
        if is_whole and at == scan.end:
            count, phy_end = _count_valid(units, phy_end)
            scan.end = scan.written_end = at + count
            rest, base = units[count:], at + count
        is_written = (rest["size"] != 0) | (rest["phy_offset"] != 0) | (rest["tags_code"] != 0)
        if not len(rest):
            continue
        if is_whole and base == scan.end:
            scan.is_end_zero = not is_written[0]
        is_whole = False
        written = np.flatnonzero(is_written)
        if len(written):
            scan.written_end = base + int(written[-1]) + 1
            positions = rest["phy_offset"][(rest["size"] > 0) & (rest["phy_offset"] >= 0)]
            if len(positions):
                lowest = int(positions.min())
                scan.lowest_py = lowest if scan.lowest_py is None else min(lowest, scan.lowest_py)
    return scan


@attrs.frozen
class LastUnits:
    """What the newest file of a queue holds whose files are no segments, or cannot be read."""

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


def _blocks(files: MappedFileQueue, first: int) -> Iterator[tuple[int, Units]]:
    """Units with their queue offset; what no block of a file holds is left out: it is zero."""
    for segment in files.segments:
        at = max(first * UNIT.size - segment.start, 0)
        while at < segment.size:
            found = segment.file.next_data(at)
            at = max(at, found - found % UNIT.size)
            if at >= segment.size:
                break
            data = segment.file.read(at, min(SCAN_COUNT * UNIT.size, segment.size - at))
            units = np.frombuffer(data[: len(data) // UNIT.size * UNIT.size], UNIT.dtype)
            yield (segment.start + at) // UNIT.size, units.astype(NATIVE_UNIT)
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
