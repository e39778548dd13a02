"""Stage 3: waits for the due slot, reads its chain, releases it millisecond by millisecond.

A slot ``t`` covers the moments in (t, t + precision]. It is read shortly before it begins; its
units are put in order of (moment, order of sending); each is released when the wall clock reaches
its moment. Short timers that are enqueued into the slot meanwhile join it. When the clock is past
its last millisecond and nothing is left, the slot is closed: the read pointer moves on, and a
``ReadMark`` follows its messages down the pipe.

Nothing waits for a slot in which nothing is: the next live one is looked up, and the task sleeps
until then or until an earlier one changes. The sleep is cut at ``clock_check_interval_ms``, so that
a wall clock that is set forward is noticed.

Source: Java ``TimerMessageStore.dequeue``, ``TimerDequeueGetService``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL, TimerLog, UnitChunk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties
from timermq.timerstore.store_options import FlushDiskType
from timermq.wheel import TimerWheel

from .clock import Clock
from .open_slot import OpenSlot
from .timer_counts import TimerCounts
from .timer_options import TimerOptions
from .timer_record import DELETE, TIMER_TOPIC, TimerFacts, TimerRecordError, decode_timer
from .timer_request import DequeueBatch, ReadMark, Requests
from .timer_state import TimerState

log = structlog.get_logger("timermq.pipeline.dequeue_get")

WALK_COUNT = 4096
"""Units read between two checkpoints: about a millisecond."""


@attrs.define(eq=False, kw_only=True)
class DequeueGet:
    """The stage; ``run`` is its task."""

    store: MessageStore
    timer_log: TimerLog
    wheel: TimerWheel
    state: TimerState
    options: TimerOptions
    clock: Clock
    counts: TimerCounts
    _open: dict[int, OpenSlot] = attrs.field(factory=dict[int, OpenSlot], init=False)
    """Slots that are read already: the present one and at most the next."""

    _rolls_sent: bool = attrs.field(default=False, init=False)
    """Rolls are on their way that may come back into the next slot."""

    async def run(self, sink: trio.MemorySendChannel[DequeueBatch | ReadMark]) -> None:
        """Release due messages until ``stopping``; then close ``sink``.

        Cancellation: slots from ``commit_read_ms`` on are read again by the next run, which leaves
        out what the commit log shows as delivered.
        """
        async with sink:
            while not self.state.stopping:
                slot_ms = self.wheel.next_live(self.state.read_ms)
                present_ms = self._present_ms()
                if slot_ms is None or slot_ms > max(present_ms, self.state.read_ms):
                    await self._pass_empty(sink, slot_ms, present_ms)
                else:
                    await self._advance(sink, slot_ms)
                    await self._release(sink, slot_ms)

    def _present_ms(self) -> int:
        """The slot that the present millisecond belongs to."""
        precision_ms = self.options.timer_precision_ms
        return (self.clock.now_ms() - 1) // precision_ms * precision_ms

    async def _pass_empty(
        self,
        sink: trio.MemorySendChannel[DequeueBatch | ReadMark],
        slot_ms: int | None,
        present_ms: int,
    ) -> None:
        """Nothing is due in slots up to the present: move on, read ahead, sleep."""
        await self._advance(sink, present_ms)
        read_ahead_ms = self.options.read_ahead_ms
        if slot_ms is not None and slot_ms + 1 - read_ahead_ms <= self.clock.now_ms():
            await self._join(self._slot(slot_ms))
            read_ahead_ms = 0
        await self._sleep(slot_ms, None if slot_ms is None else slot_ms + 1 - read_ahead_ms)

    async def _release(
        self, sink: trio.MemorySendChannel[DequeueBatch | ReadMark], slot_ms: int
    ) -> None:
        """One round on the open slot: send what is due, else close it if it is over, else sleep."""
        slot = self._slot(slot_ms)
        if not slot.is_settled:
            await self._settle(slot)
        await self._join(slot)
        requests = slot.take_due(self.clock.now_ms(), self.options.deliver_batch_count_max)
        if len(requests):
            self._rolls_sent |= bool((requests["magic"] & MAGIC_ROLL).any())
            await sink.send(DequeueBatch(requests=requests, deletes=slot.deletes))
        elif slot.needs_refill():
            for _ in slot.refill():
                await trio.lowlevel.checkpoint()
        elif self._present_ms() > slot_ms and not slot.held():
            # No checkpoint since the join: nothing can have been linked here in between.
            self._open.pop(slot_ms)
            await self._advance(sink, slot_ms + self.options.timer_precision_ms)
        else:
            await self._wait_in(slot)

    async def _settle(self, slot: OpenSlot) -> None:
        """Wait until whatever belongs into this slot is linked there.

        A roll of an earlier slot may bring a message, or the delete of one, into this slot: it has
        to be written and enqueued first. So has what was stored before the slot began: a delete
        that was acknowledged is then known before anything of the slot leaves. All of this takes as
        long as the other stages are behind. A full disk does not hold it up.
        """
        state = self.state
        while self._rolls_sent and state.commit_read_ms < slot.slot_ms and not state.stopping:
            await state.published.wait()
        self._rolls_sent = False
        if self.store.options.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            # Queues show only what is synced; an answer under way may already count on it.
            await self.store.wait_flushed(self.store.commit_log.max_offset)
        queue = self.store.queue(TIMER_TOPIC, 0)
        target = 0 if queue is None else queue.max_offset
        while state.commit_queue_offset < target and not state.waits_for_room:
            if state.stopping:
                return
            await state.committed.wait()
        slot.is_settled = True

    async def _wait_in(self, slot: OpenSlot) -> None:
        """Sleep until the next unit of the open slot is due, the slot ends, or it changes."""
        end_ms = slot.slot_ms + self.options.timer_precision_ms + 1
        due_ms = slot.next_due_ms()
        now_ms = self.clock.now_ms()
        next_ms = slot.slot_ms + self.options.timer_precision_ms
        if self.wheel.next_live(next_ms) == next_ms:
            read_ms = end_ms - self.options.read_ahead_ms
            if read_ms <= now_ms:
                await self._join(self._slot(next_ms))
            else:
                due_ms = read_ms if due_ms is None else min(due_ms, read_ms)
        await self._sleep(slot.slot_ms, end_ms if due_ms is None else due_ms)

    async def _sleep(self, slot_ms: int | None, until_ms: int | None) -> None:
        """Sleep until ``until_ms``, a change up to ``slot_ms``, or the next look at the clock."""
        longest_ms = self.options.clock_check_interval_ms
        wait_ms = longest_ms
        if until_ms is not None:
            wait_ms = min(max(until_ms - self.clock.now_ms(), 0), longest_ms)
        self.state.awaited_ms = slot_ms
        await self.state.slots_changed.wait_at_most(wait_ms / 1000)
        # Awake, every change counts: one that comes between the next look and the next sleep too.
        self.state.awaited_ms = None

    async def _advance(
        self, sink: trio.MemorySendChannel[DequeueBatch | ReadMark], read_ms: int
    ) -> None:
        """Close the slots before ``read_ms``, all of which are empty or done; never moves back."""
        if read_ms > self.state.read_ms:
            self.state.read_ms = read_ms
            self.wheel.pass_by(read_ms)
            self.state.slot_closed.set()
            await sink.send(ReadMark(read_ms))

    def _slot(self, slot_ms: int) -> OpenSlot:
        slot = self._open.get(slot_ms)
        if slot is None:
            slot = self._open[slot_ms] = OpenSlot(
                slot_ms=slot_ms,
                units_max=self.options.slot_units_max,
                walk=partial(self._walk, slot_ms),
                facts_of=self._facts_of,
                delete_key_of=self._delete_key_of,
                is_done=self._is_done,
            )
        return slot

    async def _join(self, slot: OpenSlot) -> None:
        entry = self.wheel.slot(slot.slot_ms)
        if entry is not None:
            for _ in slot.join(entry.last_pos):
                await trio.lowlevel.checkpoint()

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
        if record is None:
            self.counts.missing += 1
            log.warning("timer record is gone", phy_offset=offset_py, size=size_py)
            return None
        try:
            return decode_timer(record, offset_py, self.options.timer_precision_ms)
        except TimerRecordError as error:
            self.counts.set_aside += 1
            log.error("timer record set aside", phy_offset=offset_py, reason=str(error))
            return None

    def _delete_key_of(self, offset_py: int, size_py: int) -> bytes | None:
        record = self.store.commit_log.record_at(offset_py, size_py)
        return None if record is None else find(record_properties(record), DELETE[:-1])
