"""The slots that are being read, each from its chain in the timer log and the records it names.

Usually that is the present one, and shortly before its end the next. While one holds more than can
be delivered in time, those whose time has come meanwhile are read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs
import numpy as np
import trio
from numpy.typing import NDArray

from timermq.timerlog import TimerLog, UnitChunk, check_unit
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import RecordError
from timermq.wheel import TimerWheel

from ..records.cancel_mark import names_in_delete
from ..records.record_kin import RecordKin
from ..records.timer_record import TimerFacts, TimerRecordError, decode_present
from ..records.undeliverable import check_size
from ..state.timer_counts import TimerCounts
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .open_slot import OpenSlot
from .roll import lands_from
from .timer_request import Requests

WALK_COUNT = 4096
"""Units read between two checkpoints: about a millisecond."""


@attrs.define(eq=False, kw_only=True)
class OpenSlots:
    """Opens slots and reads what is linked in them."""

    store: MessageStore
    timer_log: TimerLog
    wheel: TimerWheel
    state: TimerState
    options: TimerOptions
    counts: TimerCounts
    _open: dict[int, OpenSlot] = attrs.field(factory=dict[int, OpenSlot], init=False)
    _rolling: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Closed slots whose rolls are not written, with the first slot that these may land in."""

    def get(self, slot_ms: int) -> OpenSlot:
        """The slot, opened with the first call; nothing is read."""
        slot = self._open.get(slot_ms)
        if slot is None:
            slot = self._open[slot_ms] = OpenSlot(
                slot_ms=slot_ms,
                units_max=self.options.slot_units_max,
                walk=partial(self._walk, slot_ms),
                facts_of=self._facts_of,
                delete_names_of=self._delete_names_of,
                check_unit=partial(check_unit, self.timer_log.scrub),
                will_need=self.store.commit_log.will_need,
                is_done=self._is_done,
            )
        return slot

    async def join(self, slot: OpenSlot) -> None:
        """Read the units that were linked since the last call."""
        entry = self.wheel.slot(slot.slot_ms)
        if entry is not None:
            for _ in slot.join(entry.last_pos):
                await trio.lowlevel.checkpoint()

    def is_read(self, slot: OpenSlot) -> bool:
        """Whether all units that are linked now have been read."""
        entry = self.wheel.slot(slot.slot_ms)
        return entry is None or entry.last_pos <= slot.seen_pos

    def close(self, slot: OpenSlot) -> None:
        """Forget the slot, but for where its rolls may land until they are written."""
        del self._open[slot.slot_ms]
        lands_ms = self._rolls_land_ms(slot)
        if lands_ms is not None:
            self._rolling[slot.slot_ms] = lands_ms

    def rolls_land_ms(self, before_ms: int) -> int | None:
        """The first slot into which a roll of an earlier one may bring something yet.

        Args:
            before_ms: Slots before this one are asked; those that are not closed have been read.

        Returns:
            None when there is none: nothing of them rolls, or all of it is written.
        """
        for slot_ms in [one for one in self._rolling if one < self.state.rolled_ms]:
            del self._rolling[slot_ms]
        earlier = (slot for slot in self._open.values() if slot.slot_ms < before_ms)
        found = (*self._rolling.values(), *map(self._rolls_land_ms, earlier))
        return min((lands_ms for lands_ms in found if lands_ms is not None), default=None)

    def _rolls_land_ms(self, slot: OpenSlot) -> int | None:
        if slot.roll_ahead_ms is None:
            return None
        return lands_from(slot.slot_ms, slot.roll_ahead_ms, self.options.timer_precision_ms)

    def first_sent_py(self) -> int | None:
        """From where on in the commit log deliveries of open slots stand; None: there are none.

        Only those count that left in turns. What leaves in order is all of the first slot, and
        stands behind the end of the slots before.
        """
        sent = (slot.first_sent_py for slot in self._open.values())
        return min((first_py for first_py in sent if first_py is not None), default=None)

    def _walk(self, slot_ms: int, last_pos: int, until_pos: int) -> Iterator[UnitChunk]:
        return self.timer_log.walk(
            last_pos, slot_ms=slot_ms, until_pos=until_pos, count_max=WALK_COUNT
        )

    def _is_done(self, requests: Requests) -> NDArray[np.bool_]:
        repeats = self.state.already_done.dequeue_repeats(requests["offset_py"])
        self.counts.repeated += int(repeats.sum())
        return repeats

    def _facts_of(self, offset_py: int, size_py: int) -> TimerFacts | None:
        record = self.store.commit_log.record_at(offset_py, size_py)
        try:
            return decode_present(record, offset_py, size_py, self.options.timer_precision_ms)
        except TimerRecordError:
            return None

    def _delete_names_of(self, offset_py: int, size_py: int) -> set[bytes] | None:
        record = self.store.commit_log.record_at(offset_py, size_py)
        try:
            check_size(record, offset_py, size_py)
            return names_in_delete(record or b"")
        except (TimerRecordError, RecordError):
            precision_ms = self.options.timer_precision_ms
            kin = RecordKin(self.store, precision_ms, offset_py, size_py)
            again = kin.delete_again(offset_py)
            return None if again is None else names_in_delete(again)
