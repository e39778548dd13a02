"""The slots of a follower as people see them: without what its log shows as delivered.

A follower passes its slots some seconds behind its master, and none any more when that is gone
(``CopiedSlots``). What waits there was mostly delivered meanwhile, as the copied log says. Only
what is shown is changed here: recovery and promotion go by slots and log themselves.
"""

from __future__ import annotations

import attrs

from timermq.timerlog import ChainError, TimerLog
from timermq.timerstore.array_types import Int64s
from timermq.wheel import Slots

from ..records.deduplication import contains
from .read_ahead import ReadAhead

LOOK_MS = 1_000
"""All slots that are due are looked at so often, at most."""


@attrs.define(eq=False)
class ShownSlots:
    """The slots of one parked service.

    Args:
        timer_log: Holds their units.
        ahead: Reads the copied log.
    """

    timer_log: TimerLog
    ahead: ReadAhead
    _gone: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Slots that are due to the number of units in them that wait no more."""
    _looked_ms: int = attrs.field(default=-LOOK_MS, init=False)

    def shown(self, live: Slots, now_ms: int) -> Slots:
        """The slots with what is still to come, without those of which nothing is.

        Args:
            live: The slots that were not passed.
            now_ms: Epoch milliseconds; slots before it are due.
        """
        due = live[live["time_ms"] < now_ms]
        if not len(due):
            return live
        if abs(now_ms - self._looked_ms) >= LOOK_MS:
            self._looked_ms = now_ms
            self._look(due)
        left = live.copy()
        gone = [self._gone.get(slot_ms, 0) for slot_ms in due["time_ms"].tolist()]
        left["num"][: len(due)] -= gone
        is_shown = left["num"] > 0
        is_shown[len(due) :] = True
        return left[is_shown]

    def _look(self, due: Slots) -> None:
        """Count what is gone; what cannot be read is left for a promotion to tell."""
        reading = self.ahead.caught_up()
        if reading is None:
            return
        gone = reading.gone()
        try:
            self._gone = {int(slot["time_ms"]): self._count(slot, gone) for slot in due}
        except ChainError:
            self._gone = {}

    def _count(self, slot: Slots, gone: Int64s) -> int:
        chunks = self.timer_log.walk(int(slot["last_pos"]), slot_ms=int(slot["time_ms"]))
        return sum(int(contains(gone, one.offset_py).sum()) for one in chunks)
