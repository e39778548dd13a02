"""The wheel: linking, reading, lapping, writing back."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.wheel import NO_POS, Slot, TimerWheel

PATH = "/store/timerwheel"
T0 = 1_700_000_000_000
RING = 6
"""Slots of the ring in these tests; index of T0 is 2."""


def make_disk() -> MemoryDisk:
    """A disk with the store's directory."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def opened(disk: MemoryDisk, from_ms: int = T0) -> TimerWheel:
    """A wheel of 6 slots that is read from ``from_ms`` on."""
    wheel = TimerWheel.open(disk, PATH, slots_total=RING // 2)
    wheel.load_live(from_ms)
    return wheel


def at(*seconds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Slot times, seconds after T0."""
    return T0 + 1000 * np.array(seconds, np.int64)


def link(wheel: TimerWheel, first_pos: int, *seconds: int) -> list[int]:
    """Link units that stand one behind the other; returns what each points at."""
    times = at(*seconds)
    positions = first_pos + 52 * np.arange(len(seconds))
    plan = wheel.plan(times, positions, np.ones(len(seconds), np.int32))
    wheel.apply(plan)
    values: list[int] = plan.prev_pos.tolist()
    return values


def live_seconds(wheel: TimerWheel) -> list[int]:
    """Live slots, seconds after T0, one by one."""
    found: list[int] = []
    time_ms = wheel.next_live(0)
    while time_ms is not None:
        found.append((time_ms - T0) // 1000)
        time_ms = wheel.next_live(time_ms + 1)
    return found


def write_back(wheel: TimerWheel) -> int:
    """Write what is dirty; returns the bytes."""
    dirty = wheel.snapshot_dirty()
    wheel.write_dirty(dirty)
    return dirty.size


def test_golden_slot_lands_at_its_index() -> None:
    """The slot of 1,700,000,003 s stands at index 512,003 of RocketMQ's ring."""
    disk = make_disk()
    wheel = TimerWheel.open(disk, PATH)
    wheel.load_live(T0)
    link(wheel, 0, 3, 3, 3)
    write_back(wheel)
    file = disk.open(PATH)

    assert file.size() == 38_707_200
    assert bytes.fromhex(
        "000000006553f103 0000000000000000 0000000000000068 00000003 00000000"
    ) == file.read(512_003 * 32, 32)


def test_units_are_chained_over_batches() -> None:
    """A unit points at the newest one of its slot, in this batch or an earlier one."""
    wheel = opened(make_disk())

    assert [NO_POS, NO_POS, 0] == link(wheel, 0, 1, 2, 1)
    assert [104] == link(wheel, 156, 1)
    assert wheel.slot(T0 + 1000) == Slot(
        time_ms=T0 + 1000, first_pos=0, last_pos=156, num=3, magic=0
    )


def test_an_absent_slot_is_none() -> None:
    """A time that was never linked, or whose index holds another time, has no slot."""
    wheel = opened(make_disk())
    link(wheel, 0, 1)

    assert wheel.slot(T0) is None
    assert wheel.slot(T0 + 1000 * (1 + RING)) is None


def test_the_time_of_unused_slots_is_no_time() -> None:
    """Time 0 has no slot, although unused slots are zero; nor is it live."""
    wheel = opened(make_disk(), 0)

    assert wheel.slot(0) is None
    assert wheel.next_live(0) is None


def test_next_live_finds_slots_in_order_around_the_ring() -> None:
    """Index order from the read time on is the order of time, also behind index 0."""
    wheel = opened(make_disk())
    link(wheel, 0, 5, 0, 3)

    assert [0, 3, 5] == live_seconds(wheel)
    assert wheel.next_live(T0 + 1) == T0 + 3000
    assert wheel.next_live(T0 + 5001) is None


def test_passed_slots_are_not_live() -> None:
    """Slots before the read time are read, those at it are not."""
    wheel = opened(make_disk())
    link(wheel, 0, 0, 1, 2, 5)
    wheel.pass_by(T0 + 2000)

    assert [2, 5] == live_seconds(wheel)
    assert wheel.slot(T0) is not None


def test_pass_by_never_moves_back() -> None:
    """An earlier time changes nothing."""
    wheel = opened(make_disk())
    wheel.pass_by(T0 + 4000)
    wheel.pass_by(T0)

    with pytest.raises(ValueError, match="expected 1700000004 to 1700000009, found 1700000003"):
        link(wheel, 0, 3)


def test_passing_more_than_a_turn_empties_the_ring() -> None:
    """A read time beyond the ring leaves nothing live."""
    wheel = opened(make_disk())
    link(wheel, 0, 0, 5)
    wheel.pass_by(T0 + 1000 * (RING + 7))

    assert [] == live_seconds(wheel)
    assert [NO_POS] == link(wheel, 104, RING + 7)


def test_a_time_one_turn_ahead_is_occupied_until_the_slot_is_needed_no_more() -> None:
    """The index of a time that is still to be read, or to be delivered, is taken, used or not."""
    wheel = opened(make_disk())
    times = at(0, RING - 1, RING, RING + 1)

    assert [False, False, True, True] == wheel.occupied(times, T0).tolist()
    assert [False, False, True, True] == wheel.occupied(times, T0 + 1000).tolist()

    wheel.pass_by(T0 + 1000)

    assert [False, False, True, True] == wheel.occupied(times, T0).tolist()
    assert [False, False, False, True] == wheel.occupied(times, T0 + 1000).tolist()


def test_linking_beyond_the_ring_is_refused() -> None:
    """A unit that would overwrite a slot still to be read is not planned."""
    wheel = opened(make_disk())

    message = "slots of 1000 ms: expected 1700000000 to 1700000005, found 1700000001 to 1700000006"
    with pytest.raises(ValueError, match=message):
        link(wheel, 0, 1, RING)


def test_the_next_turn_overwrites_a_read_slot() -> None:
    """After its reading a slot serves the time one turn later, and its chain begins anew."""
    wheel = opened(make_disk())
    link(wheel, 0, 0, 0)
    wheel.pass_by(T0 + 1000)

    assert [NO_POS] == link(wheel, 104, RING)
    assert wheel.slot(T0) is None
    assert wheel.next_live(0) == T0 + 1000 * RING


def test_live_gives_columns_in_order_of_time() -> None:
    """The columns hold live slots from the given time on, as native integers."""
    wheel = opened(make_disk())
    link(wheel, 0, 5, 0, 5, 2)

    assert [
        (T0 + 2000, 156, 156, 1),
        (T0 + 5000, 0, 104, 2),
    ] == wheel.live(T0 + 1).tolist()


def test_a_written_wheel_reads_back_the_same() -> None:
    """What was live before closing is live after opening and ``load_live``."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 5, 0, 3)
    write_back(wheel)
    wheel.close()
    again = opened(disk, T0 + 1000)

    assert not again.was_lost
    assert [3, 5] == live_seconds(again)
    assert wheel.live(T0 + 1000).tolist() == again.live(0).tolist()


def test_load_live_ignores_times_of_other_turns() -> None:
    """A slot that was read in the last turn, or holds a time of the next, is not live."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 0, 4)
    write_back(wheel)

    assert [4] == live_seconds(opened(disk, T0 + 1000))
    assert [] == live_seconds(opened(disk, T0 - 1000 * RING))
    assert [] == live_seconds(opened(disk, T0 + 5000))


def test_only_changed_slots_are_written_again() -> None:
    """A flush writes the slots that changed since the last one."""
    wheel = opened(make_disk())
    link(wheel, 0, 0, 3)
    write_back(wheel)
    link(wheel, 104, 3)

    assert write_back(wheel) == 32
    assert write_back(wheel) == 0


def test_a_snapshot_keeps_the_moment() -> None:
    """What changes after the snapshot, in a gap too, is not in it, but in the next."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 0)
    write_back(wheel)
    link(wheel, 52, 0, 2)
    dirty = wheel.snapshot_dirty()
    link(wheel, 156, 1, 2)
    wheel.write_dirty(dirty)

    assert [(0, 52), (2, 104)] == [
        ((time_ms - T0) // 1000, last_pos)
        for time_ms, _, last_pos, _ in opened(disk).live(0).tolist()
    ]
    assert write_back(wheel) == 64


def test_a_snapshot_that_was_not_written_is_in_the_next() -> None:
    """A writer that is cancelled between the two loses nothing."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 0)
    write_back(wheel)
    link(wheel, 52, 1)
    wheel.snapshot_dirty()
    link(wheel, 104, 4)
    write_back(wheel)

    assert [0, 1, 4] == live_seconds(opened(disk))


def test_relink_replays_the_tail_over_an_older_wheel() -> None:
    """Units that the wheel shows are left alone, newer ones are linked and counted."""
    wheel = opened(make_disk())
    link(wheel, 0, 1, 2, 1)
    shown = wheel.relink(at(1, 2, 1, 1, 3), 52 * np.arange(5), np.array([1, 1, 1, -1, 1], np.int32))

    assert shown.all()
    assert [
        (T0 + 1000, 0, 156, 1),
        (T0 + 2000, 52, 52, 1),
        (T0 + 3000, 208, 208, 1),
    ] == wheel.live(0).tolist()


def test_relink_leaves_out_what_was_read_and_what_lies_beyond() -> None:
    """Units of slots before the read time or after the ring are not linked, and it says so."""
    wheel = opened(make_disk(), T0 + 1000)
    shown = wheel.relink(at(0, 1, RING + 1), 52 * np.arange(3), np.ones(3, np.int32))

    assert [False, True, False] == shown.tolist()
    assert [1] == live_seconds(wheel)


def test_reset_and_relink_build_the_same_wheel() -> None:
    """A wheel built anew from all units equals the one that linked them as they came."""
    wheel = opened(make_disk())
    seconds = [3, 1, 3, 5, 1, 1]
    link(wheel, 0, *seconds)
    before = wheel.live(0).tolist()
    wheel.reset(T0)

    assert [] == live_seconds(wheel)

    wheel.relink(at(*seconds), 52 * np.arange(6), np.ones(6, np.int32))

    assert before == wheel.live(0).tolist()


def test_a_ring_built_anew_reaches_the_file_whole_or_not_at_all() -> None:
    """Until it is written the file keeps the old ring; then nothing of that is left."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 0, 1, 2)
    write_back(wheel)
    wheel.reset(T0)
    link(wheel, 156, 4)
    dirty = wheel.snapshot_dirty()

    assert [0, 1, 2] == live_seconds(opened(disk))

    wheel.write_dirty(dirty)
    disk.power_cut()

    assert [4] == live_seconds(opened(disk))


def test_a_ring_built_anew_may_be_without_a_file_until_it_is_written() -> None:
    """A job that rewrites the timer log removes the file, durably: it must not fit by chance."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 0, 1, 2)
    write_back(wheel)
    wheel.reset(T0)
    wheel.remove_file()
    disk.power_cut()

    assert not disk.exists(PATH)

    link(wheel, 156, 4)
    write_back(wheel)

    assert [4] == live_seconds(opened(disk))


def test_a_missing_wheel_stays_missing_until_it_is_written() -> None:
    """A process that dies before the first write finds the wheel lost again."""
    disk = make_disk()
    link(opened(disk), 0, 0)
    disk.process_kill()

    assert opened(disk).was_lost
    assert not disk.exists(PATH)


def test_clear_forgets_a_slot() -> None:
    """A cleared slot is absent, in memory and in the file."""
    disk = make_disk()
    wheel = opened(disk)
    link(wheel, 0, 1, 2)
    write_back(wheel)
    wheel.clear(T0 + 1000)
    wheel.clear(T0 + 1000 * (2 + RING))
    write_back(wheel)

    assert [2] == live_seconds(wheel)
    assert wheel.slot(T0 + 1000) is None
    assert [2] == live_seconds(opened(disk))


def test_other_precisions_divide_the_time() -> None:
    """With slots of 100 ms the ring spans a tenth of the time."""
    wheel = TimerWheel.open(make_disk(), PATH, slots_total=3, precision_ms=100)
    wheel.load_live(T0 + 1)
    wheel.apply(wheel.plan(np.array([T0 + 600]), np.array([52]), np.array([1], np.int32)))

    assert wheel.next_live(0) == T0 + 600
    assert [False, True] == wheel.occupied(np.array([T0 + 600, T0 + 700]), T0 + 1000).tolist()


def test_read_only_reads_a_wheel_and_creates_none() -> None:
    """A tool may look at a wheel, and at one that is not there."""
    disk = make_disk()

    assert TimerWheel.open(disk, PATH, slots_total=3, read_only=True).was_lost
    assert not disk.exists(PATH)

    wheel = opened(disk)
    link(wheel, 0, 1)
    write_back(wheel)
    reader = TimerWheel.open(disk, PATH, slots_total=3, read_only=True)
    reader.load_live(T0)

    assert [1] == live_seconds(reader)

    reader.reset(T0)
    reader.remove_file()

    assert disk.exists(PATH)


def test_a_wheel_of_a_larger_ring_is_refused() -> None:
    """The error names the file, the expected and the found length."""
    disk = make_disk()
    write_back(opened(disk))

    with pytest.raises(StoreFormatError) as caught:
        TimerWheel.open(disk, PATH, slots_total=2)

    assert str(caught.value) == f"{PATH}: at 192: expected a wheel of 128 bytes, found 192"


def test_statistics_count_slots() -> None:
    """Live and dirty slots, the ring, and the read time."""
    wheel = opened(make_disk())
    link(wheel, 0, 1, 1, 4)
    statistics = wheel.statistics()

    assert (6, 1000, 2, 2, T0) == (
        statistics.ring_count,
        statistics.precision_ms,
        statistics.live_count,
        statistics.dirty_count,
        statistics.passed_ms,
    )
