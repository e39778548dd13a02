"""What the units of a queue tell by themselves, behind a power cut and behind damage."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.unit_scan import scan_units

FILE_SIZE = 4_000
SPLIT = 102
"""A sector ends behind the position in this unit, which begins eight bytes before byte 2048."""
HUGE = 5 << 32
"""A position that needs more than four bytes."""


def units(first: int, count: int, base: int = 0) -> bytes:
    """Units of records of 100 bytes; that of unit n stands at ``base`` + 100 n."""
    return b"".join(
        UNIT.pack(base + 100 * number, 100, 7) for number in range(first, first + count)
    )


def scanned(data: bytes) -> tuple[int, int, int | None]:
    """The end of a queue whose file holds this, what stands behind it, and where its log begins."""
    files = MappedFileQueue(MemoryDisk(), "/queue", FILE_SIZE, reserve=False)
    files.write(0, data)
    scan = scan_units(files, 0)
    return scan.end, scan.written_end, scan.lost_from_py


BEHIND = units(SPLIT + 1, 2)
WHOLE = units(SPLIT, 1)


@pytest.mark.parametrize(
    ("left", "written_end", "lost_from_py"),
    [
        (b"", SPLIT, None),
        (WHOLE[:8], SPLIT + 1, 100 * SPLIT),
        (WHOLE[:8] + bytes(12) + BEHIND, SPLIT + 3, 100 * SPLIT),
        (bytes(8) + WHOLE[8:] + BEHIND, SPLIT + 3, 100 * SPLIT + 100),
        (bytes(20) + BEHIND, SPLIT + 3, 100 * SPLIT + 100),
        (bytes(8) + WHOLE[8:], SPLIT + 1, -1),
        (WHOLE[:8] + b"\xff" + WHOLE[9:], SPLIT + 1, -1),
        (b"\xff" + WHOLE[1:], SPLIT + 1, -1),
    ],
    ids=[
        "nothing",
        "position alone",
        "position alone, others behind",
        "no position, others behind",
        "never written, others behind",
        "no position",
        "damaged size",
        "damaged position",
    ],
)
def test_what_is_left_of_a_unit_in_which_a_sector_ends(
    left: bytes, written_end: int, lost_from_py: int | None
) -> None:
    """A power cut keeps whole sectors; what it has left of a unit is no damage."""
    assert scanned(units(0, SPLIT) + left) == (SPLIT, written_end, lost_from_py)


@pytest.mark.parametrize("size", [8, 10, 11])
def test_the_front_of_a_unit_that_a_killed_process_was_writing(size: int) -> None:
    """No sector has to end within it; its position is whole, and tells."""
    left = units(0, SPLIT + 2)[: -UNIT.size + size]

    assert scanned(left) == (SPLIT + 1, SPLIT + 2, 100 * (SPLIT + 1))


@pytest.mark.parametrize(
    "left",
    [WHOLE[:7], bytes(8) + WHOLE[8:], WHOLE[:8] + bytes(4) + WHOLE[12:]],
    ids=["half a position", "no position", "no size"],
)
def test_another_part_of_a_unit_within_a_sector_is_damage(left: bytes) -> None:
    """Neither a power cut nor a kill leaves one; of half a position nothing can be said."""
    assert scanned(units(0, SPLIT - 1) + left) == (SPLIT - 1, SPLIT, -1)


def test_half_a_position_tells_nothing() -> None:
    """The unit before tells that more of it was written."""
    number = 51
    whole, behind = units(number, 1, HUGE), units(number + 1, 1, HUGE)
    before = units(0, number, HUGE)

    assert number * UNIT.size % 512 == 508
    assert scanned(before + whole[:4]) == (number, number + 1, -1)
    assert scanned(before + whole[:4] + bytes(16) + behind)[2] == HUGE + 100 * number + 100
    assert scanned(before + bytes(4) + whole[4:] + behind)[2] == HUGE + 100 * number + 100


def test_a_sector_that_is_missing_between_others() -> None:
    """The first unit behind it has lost its position, and the others count."""
    first = 26
    data = bytearray(units(0, 120))
    data[512:2048] = bytes(1536)

    assert scanned(bytes(data)) == (first, 120, 100 * SPLIT + 100)
