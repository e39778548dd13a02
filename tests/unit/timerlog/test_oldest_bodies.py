"""The oldest message that waits, by what the units of the timer log name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from timer_units import SEGMENT_SIZE
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT
from timermq.timerlog.oldest_bodies import OldestBodies
from timermq.timerlog.segment import units_in
from timermq.timerlog.unit import Units
from timermq.timerstore.array_types import Flags
from timermq.timerstore.mapped_file_queue import MappedFileQueue

COUNT = units_in(SEGMENT_SIZE)
"""Units of a segment, which are one stretch."""
DIRECTORY = "/store/timerlog"


def all_of(units: Units) -> Flags:
    """Every unit counts, whatever slot it is in."""
    return np.ones(len(units), np.bool_)


def none_of(units: Units) -> Flags:
    """No unit counts, as when all were delivered."""
    return np.zeros(len(units), np.bool_)


def due_later(units: Units) -> Flags:
    """Units with a delay are needed."""
    return np.asarray(units["delay_ms"] > 0, np.bool_)


class Row:
    """Segments whose units name messages at given positions."""

    def __init__(self, *named: int, delays: dict[int, int] | None = None) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs(DIRECTORY)
        for start in range(0, len(named), COUNT):
            units = np.zeros(COUNT, UNIT.dtype)
            part = named[start : start + COUNT]
            units["size"][: len(part)] = UNIT.size
            units["magic"][: len(part)] = 1
            units["size_py"][: len(part)] = 100
            units["offset_py"][: len(part)] = part
            units["delay_ms"][: len(part)] = [(delays or {}).get(one, 0) for one in part]
            path = f"{DIRECTORY}/{start // COUNT * SEGMENT_SIZE:020d}"
            file = self.disk.open(path, create=True)
            file.write(0, units.tobytes().ljust(SEGMENT_SIZE, b"\0"))
            file.close()
        self.queue = MappedFileQueue(
            self.disk, DIRECTORY, SEGMENT_SIZE, reserve=False, read_only=True
        )
        self.queue.load()
        self.queue.wrote = (len(named) - 1) // COUNT * SEGMENT_SIZE + (
            (len(named) - 1) % COUNT + 1
        ) * UNIT.size
        self.oldest = OldestBodies(self.queue)

    def learn(self) -> int:
        """Read all stretches that are full; how many were."""
        return steps(self.oldest.learn())


def steps(learning: Iterator[None]) -> int:
    """How many steps something takes."""
    return sum(1 for _ in learning)


def test_full_stretches_are_learned_once() -> None:
    """A stretch that still grows is read each time it is asked for."""
    row = Row(*range(100, 100 + 2 * COUNT + 1))

    assert [row.learn(), row.learn()] == [2, 0]


def test_what_is_not_known_is_before_every_message() -> None:
    """Cleaning waits until the stretches were read; a stretch before that is not asked for."""
    row = Row(*range(100, 100 + COUNT + 1))

    assert row.oldest.oldest(0, all_of) == 0
    assert row.oldest.oldest(SEGMENT_SIZE, all_of) == 100 + COUNT


def test_a_unit_that_was_appended_again_counts() -> None:
    """It names an older message than the units before it."""
    row = Row(500, 600, 700, 800, 900, 50, 1000)
    row.learn()

    assert row.oldest.oldest(0, all_of) == 50
    assert row.oldest.oldest(SEGMENT_SIZE, all_of) == 50
    assert row.oldest.oldest(SEGMENT_SIZE + 2 * UNIT.size, all_of) == 1000


@pytest.mark.parametrize(("needed", "found"), [(all_of, 10), (due_later, 300), (none_of, None)])
def test_only_needed_units_count(needed: Callable[[Units], Flags], found: int | None) -> None:
    """The stretch with the oldest message of all may have none that waits."""
    row = Row(10, 20, 30, 40, 400, 300, 200, 500, delays={300: 5, 400: 5, 500: 5})
    row.learn()

    assert row.oldest.oldest(0, needed) == found


def test_removed_segments_are_forgotten() -> None:
    """What their units named does not hold the log any more."""
    row = Row(10, 20, 30, 40, 400, 300, 200, 500)
    row.learn()
    del row.queue.segments[0]

    assert row.learn() == 0
    assert row.oldest.oldest(0, all_of) == 200
