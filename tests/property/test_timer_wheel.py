"""A wheel of three slots beside a list of units: linking, lapping, writing back, reopening."""

from __future__ import annotations

import attrs
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.wheel import NO_POS, TimerWheel

PATH = "/store/timerwheel"
SLOTS_TOTAL = 3
RING = 2 * SLOTS_TOTAL
PRECISION_MS = 100


@attrs.frozen
class Linked:
    """One unit as the timer log would hold it."""

    time_ms: int
    pos: int
    num: int


class WheelBesideDict(RuleBasedStateMachine):
    """The model keeps every unit in log order; all that the wheel tells follows from them."""

    @initialize(first=st.integers(1, 20))
    def begin(self, first: int) -> None:
        """An empty wheel, read up to some slot."""
        self.disk = MemoryDisk()
        self.disk.make_dirs("/store")
        self.read_ms = first * PRECISION_MS
        self.log: list[Linked] = []
        self.durable_count = 0
        self.wheel = self.opened()
        self.wheel.load_live(self.read_ms)

    @rule(data=st.data(), count=st.integers(1, 40))
    def link(self, data: st.DataObject, count: int) -> None:
        """Units come; those a turn ahead are occupied and wait."""
        steps = data.draw(st.lists(st.integers(0, RING + 2), min_size=count, max_size=count))
        times = self.read_ms + PRECISION_MS * np.array(steps, np.int64)
        nums = np.where(np.arange(count) % 3 == 2, -1, 1).astype(np.int32)
        occupied = self.wheel.occupied(times, self.read_ms)

        assert [step >= RING for step in steps] == occupied.tolist()

        times, nums = times[~occupied], nums[~occupied]
        if len(times):
            positions = 52 * (len(self.log) + np.arange(len(times)))
            plan = self.wheel.plan(times, positions, nums)
            expected = self.expected_prev_pos(times.tolist(), positions.tolist())
            self.wheel.apply(plan)
            self.log += map(Linked, times.tolist(), positions.tolist(), nums.tolist())

            assert expected == plan.prev_pos.tolist()

    @rule(slots=st.integers(0, RING + 3), extra_ms=st.integers(0, PRECISION_MS - 1))
    def read(self, slots: int, extra_ms: int) -> None:
        """The read time moves on; it need not be that of a slot's beginning."""
        before_ms = self.read_ms + slots * PRECISION_MS + extra_ms
        self.wheel.pass_by(before_ms)
        self.read_ms = -(-before_ms // PRECISION_MS) * PRECISION_MS

    @rule(is_written=st.booleans())
    def flush(self, is_written: bool) -> None:
        """A snapshot is written, or its writer is cancelled."""
        dirty = self.wheel.snapshot_dirty()
        count = len(self.log)
        if is_written:
            self.wheel.write_dirty(dirty)
            self.disk.sync_now(self.wheel.file)
            self.durable_count = count

    @rule(overlap=st.integers(0, 20), is_power_cut=st.booleans())
    def crash(self, overlap: int, is_power_cut: bool) -> None:
        """The wheel is opened again; the log's tail is replayed, and perhaps some of it twice."""
        (self.disk.power_cut if is_power_cut else self.disk.process_kill)()
        self.wheel = self.opened()
        self.wheel.load_live(self.read_ms)
        self.relink(max(self.durable_count - overlap, 0))

    @rule(size=st.integers(1, 30))
    def rebuild(self, size: int) -> None:
        """The wheel is built anew from all units, in pieces."""
        self.wheel.reset(self.read_ms)
        for first in range(0, len(self.log), size):
            self.relink(first, first + size)

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """Slots and the next live one, from any time on."""
        time_ms = self.read_ms + data.draw(st.integers(-RING, 2 * RING)) * PRECISION_MS
        from_ms = time_ms - data.draw(st.integers(0, PRECISION_MS - 1))
        live = [time for time in self.live_times() if time >= from_ms]

        assert self.wheel.next_live(from_ms) == min(live, default=None)
        assert live == self.wheel.live(from_ms)["time_ms"].tolist()

        slot = self.wheel.slot(time_ms)
        units = self.units_of(time_ms)
        if time_ms >= self.read_ms:
            assert (slot is not None) == bool(units)
        if slot is not None and time_ms >= self.read_ms:
            assert (units[0].pos, units[-1].pos) == (slot.first_pos, slot.last_pos)
            assert sum(unit.num for unit in units) == slot.num

    @rule(back=st.integers(0, RING))
    def look_back(self, back: int) -> None:
        """The oldest unit of what is still to be read, and of what was read a while ago."""
        needed_from_ms = self.read_ms - back * PRECISION_MS
        passed = range(self.read_ms // PRECISION_MS - back, self.read_ms // PRECISION_MS)
        shown = [self.wheel.slot(tick * PRECISION_MS) for tick in passed]
        firsts = [self.units_of(time_ms)[0].pos for time_ms in self.live_times()]
        firsts += [slot.first_pos for slot in shown if slot is not None]

        assert self.wheel.oldest_pos(needed_from_ms) == min(firsts, default=None)

    @invariant()
    def live_slots_are_those_to_be_read(self) -> None:
        """All live slots with their chains' ends and numbers, in order of time."""
        expected = [
            (time, units[0].pos, units[-1].pos, sum(unit.num for unit in units))
            for time in self.live_times()
            for units in [self.units_of(time)]
        ]

        assert expected == self.wheel.live(0).tolist()
        assert len(expected) == self.wheel.statistics().live_count

    def opened(self) -> TimerWheel:
        """The wheel from its file."""
        return TimerWheel.open(self.disk, PATH, slots_total=SLOTS_TOTAL, precision_ms=PRECISION_MS)

    def relink(self, first: int, end: int | None = None) -> None:
        """Replay units of the log."""
        units = self.log[first:end]
        if units:
            self.wheel.relink(
                np.array([unit.time_ms for unit in units]),
                np.array([unit.pos for unit in units]),
                np.array([unit.num for unit in units], np.int32),
            )

    def units_of(self, time_ms: int) -> list[Linked]:
        """Units linked in a slot, oldest first."""
        return [unit for unit in self.log if unit.time_ms == time_ms]

    def live_times(self) -> list[int]:
        """Slots that hold a unit and are not read, in order."""
        return sorted({unit.time_ms for unit in self.log if unit.time_ms >= self.read_ms})

    def expected_prev_pos(self, times: list[int], positions: list[int]) -> list[int]:
        """What each unit should point at."""
        newest = {unit.time_ms: unit.pos for unit in self.log}
        expected: list[int] = []
        for time_ms, pos in zip(times, positions, strict=True):
            expected.append(newest.get(time_ms, NO_POS))
            newest[time_ms] = pos
        return expected


TestWheelBesideDict = WheelBesideDict.TestCase
TestWheelBesideDict.settings = settings(stateful_step_count=30)
