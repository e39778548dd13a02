"""Stage 3: waits for the due slot, reads its chain, releases it millisecond by millisecond.

A slot ``t`` covers the moments in (t, t + precision]. It is read shortly before it begins; its
units are put in order of (moment, order of sending); each is released when the wall clock reaches
its moment. Short timers that are enqueued into the slot meanwhile join it. When the clock is past
its last millisecond and nothing is left, the slot is closed: the read pointer moves on, and a
``ReadMark`` follows its messages down the pipe.

When more is due than one batch takes, topics take turns (``lanes``): what is due is moved from the
slot to its lanes, and each batch takes from every lane. The slots that begin meanwhile are opened
too, so that their messages need not wait for the end of this one; but only the first slot is ever
closed, so the read pointer never passes what is not delivered. While a batch takes everything that
is due, nothing of all this is done, and messages leave in the order of their moments whatever their
topic.

Nothing waits for a slot in which nothing is: the next live one is looked up, and the task sleeps
until then or until an earlier one changes. The sleep is cut at ``clock_check_interval_ms``, so that
a wall clock that is set forward is noticed.

Source: Java ``TimerMessageStore.dequeue``, ``TimerDequeueGetService``.
"""

from __future__ import annotations

import attrs
import trio

from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import FlushDiskType
from timermq.wheel import TimerWheel

from ..clock.clock import Clock
from ..records.timer_record import TIMER_TOPIC
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .lanes import Lanes
from .open_slot import OpenSlot
from .open_slots import OpenSlots
from .sorted_runs import in_order, joined
from .timer_request import DequeueBatch, ReadMark, Requests

Sink = trio.MemorySendChannel[DequeueBatch | ReadMark]

QUEUE_COUNT = 65_536
"""Due units moved to their lanes between two checkpoints: some milliseconds."""

STANDING_MS_MAX = 50
"""While the wall clock stands, it is looked at so often at least: what is due waits for it."""

COUNT_MAX = 2**62
"""More units than there can be."""


@attrs.define(eq=False, kw_only=True)
class DequeueGet:
    """The stage; ``run`` is its task."""

    store: MessageStore
    wheel: TimerWheel
    slots: OpenSlots
    state: TimerState
    options: TimerOptions
    clock: Clock
    _lanes: Lanes = attrs.field(factory=Lanes, init=False)
    """The due messages of the open slots that could not leave at once."""

    _is_crowded: bool = attrs.field(default=False, init=False)
    """More may be due than one batch takes."""

    _queued_ms: int = attrs.field(default=0, init=False)
    """The messages in the lanes were due at this time."""

    _begun_ms: int = attrs.field(default=-1, init=False)
    """The last slot of which anything has left."""

    _standing_ms: int = attrs.field(default=0, init=False)
    """The least pause while the wall clock stands."""

    _rolls_sent: bool = attrs.field(default=False, init=False)
    """Rolls are on their way that may come back into the next slot."""

    async def run(self, sink: Sink) -> None:
        """Release due messages until ``stopping``; then close the slots in hand, and ``sink``.

        Cancellation: slots from ``commit_read_ms`` on are read again by the next run, which leaves
        out what the commit log shows as delivered.
        """
        with sink:
            while not self.state.stopping or self._ends_soon():
                slot_ms = self.wheel.next_live(self.state.read_ms)
                present_ms = self._present_ms()
                if slot_ms is None or slot_ms > max(present_ms, self.state.read_ms):
                    await self._pass_empty(sink, slot_ms, present_ms)
                else:
                    await self._advance(sink, slot_ms)
                    if not await self._release(sink, slot_ms):
                        return

    def _ends_soon(self) -> bool:
        """Whether the slots of which something has left are over within the width of a slot.

        A service that stops waits for that. The next process knows what has left of a slot that is
        not closed, but RocketMQ would deliver it again.
        """
        state, precision_ms = self.state, self.options.timer_precision_ms
        left_ms = self._begun_ms + precision_ms - self.clock.now_ms()
        return state.read_ms <= self._begun_ms and left_ms <= precision_ms

    def _present_ms(self) -> int:
        """The slot that the present millisecond belongs to."""
        precision_ms = self.options.timer_precision_ms
        return (self.clock.now_ms() - 1) // precision_ms * precision_ms

    async def _pass_empty(self, sink: Sink, slot_ms: int | None, present_ms: int) -> None:
        """Nothing is due in slots up to the present: move on, read ahead, sleep."""
        await self._advance(sink, present_ms)
        read_ahead_ms = self.options.read_ahead_ms
        if slot_ms is not None and slot_ms + 1 - read_ahead_ms <= self.clock.now_ms():
            await self.slots.join(self.slots.get(slot_ms))
            read_ahead_ms = 0
        await self._sleep(slot_ms, None if slot_ms is None else slot_ms + 1 - read_ahead_ms)

    async def _release(self, sink: Sink, slot_ms: int) -> bool:
        """One round on the first open slot: close it if it is over, else send what is due.

        Returns:
            False when the service stops before everything that belongs into the slot is linked:
            nothing of it has left, and the next run opens it.
        """
        slot = self.slots.get(slot_ms)
        if not slot.is_settled and not await self._settle(slot):
            return False
        await self.slots.join(slot)
        if self._is_over(slot):
            self.slots.close(slot)
            await self._advance(sink, slot_ms + self.options.timer_precision_ms)
        elif self._is_crowded or self._lanes:
            await self._release_by_turns(sink, slot)
        else:
            await self._release_in_order(sink, slot)
        return True

    def _is_over(self, slot: OpenSlot) -> bool:
        """Whether nothing of the slot is left, nor can anything come that is not linked now."""
        return (
            self._present_ms() > slot.slot_ms
            and slot.is_used_up()
            and not self._lanes.held(slot.slot_ms)
            # Reading takes checkpoints, and something may have been linked meanwhile.
            and self.slots.is_read(slot)
        )

    async def _release_in_order(self, sink: Sink, slot: OpenSlot) -> None:
        """Send what is due, or wait for it."""
        while self.state.under_way and not self.state.stopping:
            # A batch costs the same for one message as for ten: what is due meanwhile joins it.
            await self.state.all_delivered.wait()
        count_max = self.options.deliver_batch_count_max
        requests = slot.take_due(self.clock.now_ms(), count_max)
        if len(requests):
            self._begun_ms = max(self._begun_ms, slot.slot_ms)
            self._is_crowded = len(requests) == count_max
            await self._send(sink, requests, slot.deletes)
        elif slot.needs_refill():
            await self._refill(slot)
        else:
            await self._wait_in(slot)

    async def _release_by_turns(self, sink: Sink, first: OpenSlot) -> None:
        """Send a batch in which every lane has its share; go back to order when none is left."""
        slots = [first, *await self._later(first)]
        # One time for all of them: of a later slot nothing is due before all of an earlier one.
        now_ms = self.clock.now_ms()
        if now_ms < self._queued_ms:
            self._put_back()
        self._queued_ms = now_ms
        for slot in slots:
            await self._queue_due(slot, now_ms)
        # From here to the end of ``take`` there is no checkpoint: barriers and lanes fit together.
        barriers = [(slot.slot_ms, lanes) for slot in slots if (lanes := slot.lanes_behind())]
        batches: list[tuple[frozenset[bytes], list[Requests]]] = []
        for slot_ms, requests in self._lanes.take(self.options.deliver_batch_count_max, barriers):
            slot = self.slots.get(slot_ms)
            self._begun_ms = max(self._begun_ms, slot_ms)
            # Noted before it leaves: a mark that is sent meanwhile must not let recovery pass it.
            if slot.first_sent_py is None:
                slot.first_sent_py = self.store.commit_log.max_offset
            if not batches or batches[-1][0] != slot.deletes:
                batches.append((slot.deletes, []))
            batches[-1][1].append(requests)
        # All of these are out of slots and lanes, and only here until they are sent.
        self._is_crowded = bool(batches)
        for deletes, parts in batches:
            await self._send(sink, in_order(joined(parts)), deletes)
        if not batches and self._lanes:
            # The clock was set back, and what they have to let pass is not due any more.
            await self._wait_in(first)

    def _put_back(self) -> None:
        """The clock was set back: what is in the lanes may not be due any more."""
        for slot_ms, requests in self._lanes.take(COUNT_MAX):
            self.slots.get(slot_ms).put_back(requests)

    async def _later(self, first: OpenSlot) -> list[OpenSlot]:
        """The slots behind the first one whose time has come, read, as far as there is room."""
        options, later = self.options, list[OpenSlot]()
        # What an earlier slot has rolled lands a third of a window behind it at least.
        window_slots = options.roll_window_ms // options.timer_precision_ms
        end_ms = self.state.commit_read_ms + window_slots // 3 * options.timer_precision_ms
        room = options.slot_units_max
        slot_ms = self.wheel.next_live(first.slot_ms + options.timer_precision_ms)
        while slot_ms is not None and slot_ms <= self._present_ms() and slot_ms < end_ms:
            if room <= 0 or len(later) + 1 >= options.open_slots_max:
                break
            # Units of an earlier run may have been put there with a smaller window.
            lands_ms = self.slots.rolls_land_ms(slot_ms)
            if lands_ms is not None and slot_ms >= lands_ms:
                break
            slot = self.slots.get(slot_ms)
            if not slot.is_settled and not await self._settles(slot):
                break
            await self.slots.join(slot)
            later.append(slot)
            room -= slot.held() + self._lanes.held(slot_ms)
            slot_ms = self.wheel.next_live(slot_ms + options.timer_precision_ms)
        return later

    async def _queue_due(self, slot: OpenSlot, now_ms: int) -> None:
        """Move what is due of a slot to the lanes."""
        if slot.needs_refill() and not self._lanes.held(slot.slot_ms):
            await self._refill(slot)
        while len(requests := slot.take_due(now_ms, QUEUE_COUNT)):
            self._lanes.add(slot.slot_ms, requests)
            if len(requests) < QUEUE_COUNT:
                break
            await trio.lowlevel.checkpoint()

    async def _refill(self, slot: OpenSlot) -> None:
        for _ in slot.refill():
            await trio.lowlevel.checkpoint()

    async def _send(self, sink: Sink, requests: Requests, deletes: frozenset[bytes]) -> None:
        self._rolls_sent |= bool((requests["magic"] & MAGIC_ROLL).any())
        self.state.under_way.append(int(requests["offset_py"].min()))
        await sink.send(DequeueBatch(requests=requests, deletes=deletes))

    async def _settle(self, slot: OpenSlot) -> bool:
        """Wait until whatever belongs into this slot is linked there; False if the service stops.

        A roll of an earlier slot may bring a message, or the delete of one, into this slot: it has
        to be written and enqueued first. So has what was stored before the slot began: a delete
        that was acknowledged is then known before anything of the slot leaves. All of this takes as
        long as the other stages are behind, and on a full disk until there is room: a delete that
        has no unit yet may be among what waits for it.
        """
        state = self.state
        while self._rolls_sent and state.rolled_ms < slot.slot_ms and not state.stopping:
            await state.published.wait()
        if self._rolls_sent and state.rolled_ms < slot.slot_ms:
            return False
        self._rolls_sent = False
        await self._begin_to_settle(slot)
        while not self._looks_settled(slot):
            if state.stopping:
                return False
            # On a full disk queues lag behind the log: nothing tells when they may go on.
            await state.committed.wait_at_most(self.options.retry_interval_ms / 1000)
        slot.is_settled = True
        return True

    async def _settles(self, slot: OpenSlot) -> bool:
        """The same for a later slot, without waiting."""
        if slot.settles_py is None:
            await self._begin_to_settle(slot)
        slot.is_settled = self._looks_settled(slot)
        return slot.is_settled

    async def _begin_to_settle(self, slot: OpenSlot) -> None:
        """Note what is stored now."""
        end = self.store.commit_log.max_offset
        if self.store.options.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            # Queues show only what is synced; an answer under way may already count on it.
            await self.store.wait_flushed(end)
        self.state.called.set()
        # What is stored later waits for the next sync, whose end does not wake this task.
        slot.settles_py = end

    def _looks_settled(self, slot: OpenSlot) -> bool:
        if slot.settles_at is None and self.store.dispatch() >= (slot.settles_py or 0):
            queue = self.store.queue(TIMER_TOPIC, 0)
            slot.settles_at = 0 if queue is None else queue.max_offset
        return slot.settles_at is not None and self.state.commit_queue_offset >= slot.settles_at

    async def _wait_in(self, slot: OpenSlot) -> None:
        """Sleep until the next unit of the open slot is due, the slot ends, or it changes."""
        end_ms = slot.slot_ms + self.options.timer_precision_ms + 1
        due_ms = slot.next_due_ms()
        now_ms = self.clock.now_ms()
        next_ms = slot.slot_ms + self.options.timer_precision_ms
        if self.wheel.next_live(next_ms) == next_ms:
            read_ms = end_ms - self.options.read_ahead_ms
            if read_ms <= now_ms:
                await self.slots.join(self.slots.get(next_ms))
            else:
                due_ms = read_ms if due_ms is None else min(due_ms, read_ms)
        await self._sleep(slot.slot_ms, end_ms if due_ms is None else due_ms)

    async def _sleep(self, slot_ms: int | None, until_ms: int | None) -> None:
        """Sleep until ``until_ms``, a change up to ``slot_ms``, or the next look at the clock."""
        longest_ms = self.options.clock_check_interval_ms
        now_ms = self.clock.now_ms()
        wait_ms = longest_ms
        if until_ms is not None:
            wait_ms = min(max(until_ms - now_ms, self._standing_ms), longest_ms)
        self.state.awaited_ms = slot_ms
        is_changed = await self.state.slots_changed.wait_at_most(wait_ms / 1000)
        # Awake, every change counts: one that comes between the next look and the next sleep too.
        self.state.awaited_ms = None
        # A clock that stands would be looked at a thousand times a second.
        stands = wait_ms > 0 and not is_changed and self.clock.now_ms() == now_ms
        self._standing_ms = min(max(2 * self._standing_ms, 1), STANDING_MS_MAX) if stands else 0

    async def _advance(self, sink: Sink, read_ms: int) -> None:
        """Close the slots before ``read_ms``, all of which are empty or done; never moves back."""
        if read_ms > self.state.read_ms:
            self.state.read_ms = read_ms
            self.wheel.pass_by(read_ms)
            self.state.slot_closed.set()
            await sink.send(ReadMark(read_ms, self.slots.first_sent_py()))
