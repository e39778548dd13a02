"""The units of a queue as its files have them, whatever their state."""

from __future__ import annotations

import pytest

from small_store import ROOT
from timermq.repair import queue_units
from timermq.repair.queue_units import QueueUnits, is_filler, queue_directory, queues_with_files
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.queue_unit import FILLER_SIZE, UNIT
from unit.repair.small_checks import put

FILLER = (0, FILLER_SIZE, 0)


def units(*found: tuple[int, int, int] | None, start: int = 0) -> QueueUnits:
    """A queue in files of five units; None is a unit of zeros."""
    disk = MemoryDisk()
    for number, one in enumerate(found):
        offset = start + number
        path = f"consumequeue/T/0/{offset // 5 * 100:020d}"
        put(disk, path, bytes(20) if one is None else UNIT.pack(*one), offset % 5 * 20)
    return QueueUnits.of(disk, ROOT, "T", 0, 100)


def shown(position: int) -> tuple[int, int, int]:
    """The unit of a record at a position."""
    return position, 90, 7


def test_a_unit_is_read_by_its_offset() -> None:
    """None where the files end, or where nothing was written yet."""
    found = units(shown(0), shown(100), None, shown(300), start=5)

    assert [found.unit(offset) for offset in (4, 5, 6, 7, 8, 9, 10)] == [
        *(None, shown(0), shown(100), None, shown(300), None, None)
    ]
    assert found.first_offset == 5


@pytest.mark.parametrize("block_count", [1, 2, 128])
def test_units_near_each_other_are_read_in_blocks(
    monkeypatch: pytest.MonkeyPatch, block_count: int
) -> None:
    """The size of a block changes no answer, going back neither."""
    monkeypatch.setattr(queue_units, "BLOCK_COUNT", block_count)
    found = units(*map(shown, range(0, 700, 100)))

    assert [found.unit(offset) for offset in (6, 2, 3, 0, 5, 4)] == [
        shown(100 * offset) for offset in (6, 2, 3, 0, 5, 4)
    ]


def test_fillers_show_nothing() -> None:
    """A first segment is filled with them up to the first message."""
    found = units(FILLER, FILLER, shown(0))

    assert is_filler(FILLER)
    assert not is_filler(shown(0))
    assert found.first_shown() == 2
    assert units(FILLER).first_shown() == 1


@pytest.mark.parametrize(
    ("position", "offset"), [(0, 1), (100, 1), (101, 2), (250, 3), (301, 5), (9_999, 5)]
)
def test_the_first_unit_from_a_position_on(position: int, offset: int) -> None:
    """Where none follows it is the first place without a unit."""
    found = units(FILLER, shown(100), shown(200), shown(300), shown(300), None)

    assert found.first_from(position) == offset


def test_behind_whole_files_the_first_place_is_their_end() -> None:
    """There is no place without a unit in them."""
    assert units(*map(shown, range(0, 500, 100))).first_from(9_999) == 5


def test_blocks_go_on_behind_a_short_file() -> None:
    """With the next segment, and what is missing is left out."""
    found = units(shown(0), shown(100), None, None, None, shown(500))

    assert [(first, len(block)) for first, block in units(shown(0)).blocks(0, 9)] == [(0, 1)]
    assert [first for first, _ in found.blocks(0, 6)] == [0, 5]


def test_queues_are_found_by_their_directories() -> None:
    """Names that are no number are none, nor are light queues, which other files tell of."""
    disk = MemoryDisk()
    for name in ("T/0", "T/12", "T/x", "%LMQ%a/0"):
        disk.make_dirs(f"{ROOT}/consumequeue/{name}")
    put(disk, "consumequeue/file", b"x")

    assert sorted(queues_with_files(disk, ROOT)) == [("T", 0), ("T", 12)]
    assert queue_directory("T", 12) == "consumequeue/T/12"
