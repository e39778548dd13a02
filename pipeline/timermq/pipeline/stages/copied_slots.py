"""The slots of a follower that its master has delivered: they are passed without a delivery here.

What a passed slot holds of messages that came late, and may still wait at the master, is linked
once more where reading is: so it is found there by a promotion, which leaves out what the log shows
as delivered. What waited there for a roll, which the log does not show, is linked once more ahead:
the master has it in a later slot (``waiting_ends``).
"""

from __future__ import annotations

import attrs
import numpy as np

from timermq.timerlog import MAGIC_ROLL, UNIT, TimerLog, numbers_in_slot
from timermq.timerlog.unit import Units
from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.disk import is_for_a_while
from timermq.wheel import TimerWheel

from ..records.deduplication import contains
from ..records.timer_record import TIMER_TOPIC, TimerRecordError, decode_present
from ..recovery.done_reading import DoneReading
from ..recovery.read_ahead import ReadAhead
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .waiting_ends import waiting_from

LOOKS_SHARE = 16
"""All units are looked at again when the log has grown by this part of their size …"""
LOOKS_MS = 60_000
"""… or so much of the slots is passed."""
LEGS = 8
"""What the master may roll soon is linked ahead by this part of the roll window."""


@attrs.frozen(eq=False, kw_only=True)
class CopiedSlots:
    """Passes the slots of one follower; plain code."""

    timer_log: TimerLog
    wheel: TimerWheel
    state: TimerState
    options: TimerOptions
    ahead: ReadAhead

    def pass_by(self, *, read_ms: int, queue_offset: int, scan_py: int) -> bool:
        """Take slots as delivered by the master.

        Args:
            read_ms: Slots before it are delivered …
            queue_offset: … as far as they hold entries of the timer topic before this one.
            scan_py: Deliveries of later slots stand at or behind this position.

        Returns:
            False when nothing changes: they are passed already, too much of the log is not read, or
            the disk has no room for what is linked once more.

        Raises:
            ChainError: The timer log is damaged.
            OSError: It failed.
        """
        state, precision_ms = self.state, self.options.timer_precision_ms
        read_ms -= read_ms % precision_ms
        if read_ms <= state.read_ms or state.stopping:
            return False
        reading = self.ahead.caught_up()
        if reading is None:
            return False
        late_py = self._position_of(queue_offset)
        while state.read_ms < read_ms:
            # What is linked once more needs a place in the ring.
            last_ms = self.wheel.end_ms(state.commit_read_ms) - precision_ms
            if not self._pass_by(min(read_ms, last_ms), late_py, reading):
                return False
        state.forget_what_is_done()
        # What the last run found done is looked for in the same part of the log.
        if not state.already_done:
            state.scan_py = max(state.scan_py, self._scan_py(min(scan_py, late_py), reading))
        state.slot_closed.set()
        return True

    def _scan_py(self, wanted_py: int, reading: DoneReading) -> int:
        """From where on all stands that ends what waits in the follower's own slots."""
        timer_log, state = self.timer_log, self.state
        ends = reading.ends(state.scan_py, wanted_py)
        if not len(ends):
            return wanted_py
        units_size = timer_log.max_pos - timer_log.min_pos
        is_soon = wanted_py - self.ahead.looked_py < units_size // LOOKS_SHARE
        if is_soon and state.read_ms - self.ahead.looked_ms < LOOKS_MS:
            return state.scan_py
        self.ahead.looked_py, self.ahead.looked_ms = wanted_py, state.read_ms
        first_py = waiting_from(timer_log, ends, state.read_ms)
        return wanted_py if first_py is None else first_py

    def _pass_by(self, read_ms: int, late_py: int, reading: DoneReading) -> bool:
        again = self._again(read_ms, late_py)
        is_late = again["offset_py"] >= late_py
        targets = np.where(is_late, read_ms, 0)
        for row in np.flatnonzero(~is_late & ~self._are_ended(again, reading)).tolist():
            targets[row], again["magic"][row] = self._ahead_of(again[row], read_ms, reading)
        is_needed = targets >= read_ms
        if is_needed.any() and not self._link(again[is_needed], targets[is_needed]):
            return False
        self.wheel.pass_by(read_ms)
        self.state.read_ms = self.state.commit_read_ms = read_ms
        return True

    def _position_of(self, queue_offset: int) -> int:
        """Position of the record of an entry of the timer topic; the log's end without one."""
        queue = self.ahead.store.queue(TIMER_TOPIC, 0)
        units = None if queue is None else queue.units(max(queue_offset, queue.min_offset), 1)
        if units is None or not len(units):
            return self.ahead.store.commit_log.max_offset
        return int(units["phy_offset"][0])

    def _are_ended(self, units: Units, reading: DoneReading) -> Flags:
        """Which units are of records that the log shows as ended."""
        ends = reading.ends()
        offsets_py = units["offset_py"].astype(np.int64)
        ended = contains(np.unique(ends.origins[~ends.are_cancels]), offsets_py)
        return np.asarray(ended | (offsets_py < self.ahead.store.commit_log.min_offset), np.bool_)

    def _ahead_of(self, unit: np.void, read_ms: int, reading: DoneReading) -> tuple[int, int]:
        """Slot and magic for what waited for a roll in a slot to be passed; slot 0: it is done."""
        precision_ms = self.options.timer_precision_ms
        leg_ms = max(self.options.roll_window_ms // precision_ms // LEGS, 1) * precision_ms
        # The ring is not passed yet.
        last_ms = self.wheel.end_ms(self.state.commit_read_ms) - precision_ms
        offset_py, size_py, magic = (int(unit[one]) for one in ("offset_py", "size_py", "magic"))
        record = self.ahead.store.commit_log.record_at(offset_py, size_py)
        try:
            out_ms = decode_present(record, offset_py, size_py, precision_ms).out_ms
        except TimerRecordError:
            return last_ms, magic
        if out_ms < read_ms or (record is not None and reading.has_foreign(offset_py, record)):
            return 0, magic
        if out_ms <= min(read_ms + 2 * leg_ms, last_ms):
            return out_ms, magic & ~MAGIC_ROLL
        return min(read_ms + leg_ms, last_ms), magic

    def _again(self, read_ms: int, late_py: int) -> Units:
        """The units of the slots to be passed that may have to wait on.

        Their records stand at or behind a position, or they wait for a roll.
        """
        found: list[Units] = [np.zeros(0, UNIT.dtype)]
        for slot in self.wheel.live(self.state.read_ms):
            slot_ms = int(slot["time_ms"])
            if slot_ms >= read_ms:
                break
            for chunk in self.timer_log.walk(int(slot["last_pos"]), slot_ms=slot_ms):
                chosen: Flags = (chunk.offset_py >= late_py) | ((chunk.magic & MAGIC_ROLL) != 0)
                units = np.zeros(int(chosen.sum()), UNIT.dtype)
                units["size"] = UNIT.size
                units["offset_py"], units["size_py"] = (
                    chunk.offset_py[chosen],
                    chunk.size_py[chosen],
                )
                units["magic"], units["topic_hash"] = (
                    chunk.magic[chosen],
                    chunk.topic_hash[chosen],
                )
                found.append(units)
        # Joined they have the bytes of this machine's order.
        again = np.concatenate(found).astype(UNIT.dtype)
        return again[np.argsort(again["offset_py"], kind="stable")]

    def _link(self, units: Units, targets: Int64s) -> bool:
        """Append units for other slots, and link them; False without room on the disk."""
        # Their moments are told by their records alone, as of all units in other slots than asked.
        units["write_ms"] = targets
        positions = self.timer_log.positions(len(units))
        plan = self.wheel.plan(targets, positions, numbers_in_slot(units["magic"]))
        units["prev_pos"] = plan.prev_pos
        try:
            self.timer_log.append(units)
        except OSError as error:
            if not is_for_a_while(error):
                raise
            return False
        self.wheel.apply(plan)
        return True
