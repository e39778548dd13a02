"""The slots of a follower that its master has delivered: they are passed without a delivery here.

What a passed slot holds of messages that came late, and may still wait at the master, is linked
once more where reading is: so it is found there by a promotion, which leaves out what the log shows
as delivered.
"""

from __future__ import annotations

import attrs
import numpy as np

from timermq.timerlog import UNIT, TimerLog, numbers_in_slot
from timermq.timerlog.unit import Units
from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.message_store import MessageStore
from timermq.wheel import TimerWheel

from ..records.timer_record import TIMER_TOPIC
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState


@attrs.frozen(eq=False, kw_only=True)
class CopiedSlots:
    """Passes the slots of one follower; plain code."""

    store: MessageStore
    timer_log: TimerLog
    wheel: TimerWheel
    state: TimerState
    options: TimerOptions

    def pass_by(self, *, read_ms: int, queue_offset: int, scan_py: int) -> bool:
        """Take slots as delivered by the master.

        Args:
            read_ms: Slots before it are delivered …
            queue_offset: … as far as they hold entries of the timer topic before this one.
            scan_py: Deliveries of later slots stand at or behind this position.

        Returns:
            False when nothing changes: they are passed already, or the disk has no room for what is
            linked once more.

        Raises:
            ChainError: The timer log is damaged.
            OSError: It failed.
        """
        state, precision_ms = self.state, self.options.timer_precision_ms
        read_ms -= read_ms % precision_ms
        if read_ms <= state.read_ms or state.stopping:
            return False
        late_py = self._position_of(queue_offset)
        while state.read_ms < read_ms:
            # What is linked once more needs a place in the ring.
            last_ms = self.wheel.end_ms(state.commit_read_ms) - precision_ms
            if not self._pass_by(min(read_ms, last_ms), late_py):
                return False
        state.forget_what_is_done()
        # What the last run found done is looked for in the same part of the log.
        if not state.already_done:
            state.scan_py = max(state.scan_py, min(scan_py, late_py))
        state.slot_closed.set()
        return True

    def _pass_by(self, read_ms: int, late_py: int) -> bool:
        late = self._late(read_ms, late_py)
        if len(late) and not self._link(late, read_ms):
            return False
        self.wheel.pass_by(read_ms)
        self.state.read_ms = self.state.commit_read_ms = read_ms
        return True

    def _position_of(self, queue_offset: int) -> int:
        """Position of the record of an entry of the timer topic; the log's end without one."""
        queue = self.store.queue(TIMER_TOPIC, 0)
        units = None if queue is None else queue.units(max(queue_offset, queue.min_offset), 1)
        if units is None or not len(units):
            return self.store.commit_log.max_offset
        return int(units["phy_offset"][0])

    def _late(self, read_ms: int, late_py: int) -> Units:
        """The units of the slots to be passed whose records stand at or behind a position."""
        found: list[Units] = [np.zeros(0, UNIT.dtype)]
        for slot in self.wheel.live(self.state.read_ms):
            slot_ms = int(slot["time_ms"])
            if slot_ms >= read_ms:
                break
            for chunk in self.timer_log.walk(int(slot["last_pos"]), slot_ms=slot_ms):
                is_late = chunk.offset_py >= late_py
                units = np.zeros(int(is_late.sum()), UNIT.dtype)
                units["size"] = UNIT.size
                units["offset_py"], units["size_py"] = (
                    chunk.offset_py[is_late],
                    chunk.size_py[is_late],
                )
                units["magic"], units["topic_hash"] = (
                    chunk.magic[is_late],
                    chunk.topic_hash[is_late],
                )
                found.append(units)
        # Joined they have the bytes of this machine's order.
        late = np.concatenate(found).astype(UNIT.dtype)
        return late[np.argsort(late["offset_py"], kind="stable")]

    def _link(self, units: Units, slot_ms: int) -> bool:
        """Append units for another slot, and link them; False without room on the disk."""
        # Their moments are told by their records alone, as of all units in other slots than asked.
        units["write_ms"] = slot_ms
        targets = np.full(len(units), slot_ms, np.int64)
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
