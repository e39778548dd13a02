"""The check of all links beside the rule itself, followed link by link."""

from __future__ import annotations

import trio
from hypothesis import given
from hypothesis import strategies as st

from timer_units import SEGMENT_SIZE, append_units
from timermq.pipeline.recovery.link_check import LinkCheck
from timermq.pipeline.recovery.timer_log_repair import cut_damaged
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import NO_POS, UNIT, TimerLog, TimerUnit

DIRECTORY = "/store/timerlog"
READ_MS = 2_000
RING_COUNT = 3
"""Slots 2000, 3000 and 4000 are in the ring; 0 and 1000 are read, 5000 and 6000 lie beyond it."""

slots = st.lists(st.integers(0, 6).map(lambda second: second * 1000), min_size=1, max_size=30)
damages = st.tuples(
    st.sampled_from(["prev_pos", "delay_ms", "size"]),
    st.integers(0, 29),
    st.one_of(
        st.integers(0, 29).map(lambda number: number * UNIT.size),
        st.integers(0, 7).map(lambda second: second * 1000),
        st.sampled_from([NO_POS, -2, 51, 2_001, 1 << 40]),
    ),
)
segment_sizes = st.sampled_from([SEGMENT_SIZE, 7 * UNIT.size + 20, 40 * UNIT.size])


def damage(disk: MemoryDisk, pos: int, column: str, value: int, segment_size: int) -> None:
    """Write a number into a field of the unit at ``pos``."""
    start = pos // segment_size * segment_size
    size = 8 if column == "prev_pos" else 4
    data = (value % (1 << 8 * size)).to_bytes(size, "big")
    disk.open(f"{DIRECTORY}/{start:020}").write(pos - start + UNIT.offset_of(column), data)


def units_by_position(disk: MemoryDisk, positions: list[int], size: int) -> dict[int, TimerUnit]:
    """The units that are whole, read one by one."""
    found: dict[int, TimerUnit] = {}
    for pos in positions:
        file = disk.open(f"{DIRECTORY}/{pos // size * size:020}")
        unit = TimerUnit.decode(file.read(pos % size, UNIT.size))
        if unit.is_valid:
            found[pos] = unit
    return found


def is_good(units: dict[int, TimerUnit], pos: int) -> bool:
    """There is a unit, and if it waits the one before it is one of its slot, or there is none."""
    unit = units.get(pos)
    if unit is None:
        return False
    before = units.get(unit.prev_pos)
    is_linked = before is not None and before.slot_ms == unit.slot_ms and unit.prev_pos < pos
    return unit.slot_ms < READ_MS or unit.prev_pos == NO_POS or is_linked


@given(slots, st.lists(damages, max_size=2), segment_sizes)
def test_the_log_is_cut_at_the_first_bad_unit(
    units_slots: list[int], bad: list[tuple[str, int, int]], segment_size: int
) -> None:
    """Whatever number stands in a link, a slot time or a size; without damage nothing is cut."""
    disk = MemoryDisk()
    log = TimerLog.open(disk, DIRECTORY, segment_size)
    positions = append_units(log, units_slots, {})
    for column, number, value in bad:
        pos = positions[number % len(positions)]
        damage(disk, pos, column, value, segment_size)
    units = units_by_position(disk, positions, segment_size)
    first_bad = next((pos for pos in positions if not is_good(units, pos)), None)
    links = LinkCheck(log, READ_MS, precision_ms=1000, ring_count=RING_COUNT)
    end = log.max_pos

    assert (first_bad is not None) == cut_damaged(log, links)
    assert log.max_pos == (end if first_bad is None else first_bad)


@given(slots)
def test_links_below_the_start_are_good(units_slots: list[int]) -> None:
    """Units whose messages are gone were removed with the oldest segments."""
    disk = MemoryDisk()
    log = TimerLog.open(disk, DIRECTORY, SEGMENT_SIZE)
    append_units(log, units_slots, {})
    trio.run(log.delete_before_phy, 100 * len(units_slots) // 2)
    end = log.max_pos
    links = LinkCheck(log, READ_MS, precision_ms=1000, ring_count=RING_COUNT)

    assert not cut_damaged(log, links)
    assert end == log.max_pos
