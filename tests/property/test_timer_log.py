"""A log of segments of four units beside a list: appending, walking, recovery, removal."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from timer_units import SEGMENT_SIZE, append_units
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import NO_POS, UNIT, TimerLog

DIRECTORY = "/store/timerlog"
PER_SEGMENT = 4
NEEDED_SIZE = UNIT.offset_of("topic_hash")
"""Bytes of a unit that say all there is to know without reading its message."""

batches = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=11), min_size=1, max_size=5)
"""Slots of the units of each batch."""


def opened(disk: MemoryDisk) -> TimerLog:
    """The log, recovered from its beginning."""
    log = TimerLog.open(disk, DIRECTORY, SEGMENT_SIZE)
    log.recover(0)
    return log


def place(index: int) -> int:
    """Where the unit of that number stands: the rule by itself, without the code."""
    return index // PER_SEGMENT * SEGMENT_SIZE + index % PER_SEGMENT * UNIT.size


def scanned(log: TimerLog, from_pos: int = 0) -> list[tuple[int, int]]:
    """(position, message position) of all units."""
    found: list[tuple[int, int]] = []
    for positions, units in log.scan(from_pos):
        found += zip(positions.tolist(), units["offset_py"].tolist(), strict=True)
    return found


def fill(log: TimerLog, slots_of_batches: list[list[int]], first: int = 0) -> list[int]:
    """Append batches; returns the positions. Messages are 100 bytes, one behind the other."""
    newest: dict[int, int] = {}
    positions: list[int] = []
    for slots in slots_of_batches:
        offset_py = 100 * (first + len(positions))
        positions += append_units(log, slots, newest, offset_py=offset_py)
    return positions


@given(batches)
def test_units_stand_one_behind_the_other(slots_of_batches: list[list[int]]) -> None:
    """However they are batched, units fill segment after segment; a reopened log has them all."""
    disk = MemoryDisk()
    positions = fill(opened(disk), slots_of_batches)
    expected = [(place(index), 100 * index) for index in range(len(positions))]

    assert [pos for pos, _ in expected] == positions
    assert expected == scanned(opened(disk))


@given(batches, st.integers(0, 60), st.integers(1, 5))
def test_walks_meet_exactly_the_units_of_the_slot(
    slots_of_batches: list[list[int]], until: int, count_max: int
) -> None:
    """Newest first, down to but not including the known one, in chunks of the size asked for."""
    log = opened(MemoryDisk())
    positions = fill(log, slots_of_batches)
    slots = list(chain.from_iterable(slots_of_batches))
    until_pos = place(until)
    for slot in set(slots):
        of_slot = [pos for pos, of in zip(positions, slots, strict=True) if of == slot][::-1]
        chunks = list(log.walk(of_slot[0], slot_ms=slot, until_pos=until_pos, count_max=count_max))
        walked = np.concatenate([np.empty(0, np.int64), *(chunk.pos for chunk in chunks)])

        assert [pos for pos in of_slot if pos > until_pos] == walked.tolist()
        assert all(0 < len(chunk) <= count_max for chunk in chunks)


@pytest.mark.slow
@pytest.mark.parametrize("count", range(1, 10))
def test_recovery_at_every_truncation_point(count: int) -> None:
    """Wherever a sector may end, the whole units before it are kept, and appending goes on there.

    A unit that lacks only what its message tells as well (topic hash, reserved) counts as whole.
    """
    for cut in range(0, place(count) + UNIT.size, 4):
        disk = MemoryDisk()
        fill(opened(disk), [[0] * count])
        truncate(disk, cut)
        kept = [index for index in range(count) if place(index) + NEEDED_SIZE <= cut]
        log = opened(disk)

        assert [(place(index), 100 * index) for index in kept] == scanned(log)

        more = fill(log, [[1] * (cut % 6 + 1)], len(kept))

        assert [place(len(kept) + index) for index in range(len(more))] == more
        assert len(kept) + len(more) == len(scanned(opened(disk)))


def truncate(disk: MemoryDisk, cut: int) -> None:
    """Make everything from ``cut`` on zero, as a power cut would."""
    for name in disk.list_dir(DIRECTORY):
        at = max(cut - int(name), 0)
        if at < SEGMENT_SIZE:
            disk.open(f"{DIRECTORY}/{name}").write(at, bytes(SEGMENT_SIZE - at))


@given(batches, st.integers(0, 60))
def test_removal_keeps_every_unit_whose_message_is_there(
    slots_of_batches: list[list[int]], gone: int
) -> None:
    """Whole segments go from the front, as many as possible but never the last."""
    log = opened(MemoryDisk())
    count = len(fill(log, slots_of_batches))
    segments = -(-count // PER_SEGMENT)
    expected = min(gone // PER_SEGMENT, segments - 1)

    assert trio.run(log.delete_before_phy, 100 * gone) == expected
    assert log.min_pos == expected * SEGMENT_SIZE
    assert [
        (place(index), 100 * index) for index in range(expected * PER_SEGMENT, count)
    ] == scanned(log, log.min_pos)


@given(batches, st.lists(st.integers(-60, 1200), min_size=1, max_size=20))
def test_targets_are_those_of_units(slots_of_batches: list[list[int]], anywhere: list[int]) -> None:
    """A position has a slot exactly when a unit begins there."""
    log = opened(MemoryDisk())
    positions = fill(log, slots_of_batches)
    slots = dict(zip(positions, list(chain.from_iterable(slots_of_batches)), strict=True))
    asked = [*anywhere, *positions]

    assert [slots.get(pos, NO_POS) for pos in asked] == log.targets(
        np.array(asked, np.int64)
    ).tolist()
