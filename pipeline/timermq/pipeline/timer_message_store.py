"""The timer service: one entry, five stages, one nursery.

::

    put ─▶ admission ─▶ commit log ─▶ queue of rmq_sys_wheel_timer
                                          │
       1 enqueue_get ─▶ 2 enqueue_put ─▶ timer log, wheel
                                          │
       3 dequeue_get ─▶ 4 dequeue_get_message ─▶ 5 dequeue_put_message ─▶ commit log ─▶ real topics

Stage 3 learns of new units from the wheel, so two pipes run side by side: 1 to 2, and 3 to 5.
Channels carry batches and hold few of them or none: they are backpressure, not storage. A stage
that dies stops the service with its cause; no stage closes what it receives from, whose break would
hide it. A graceful stop lets stages 1 and 3 finish what they hold; closing their channels drains
the rest in order; a last checkpoint ends it.

Source: Java ``TimerMessageStore``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import structlog
import trio

from timermq.timerlog import ChainError, DamagedUnitError
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.wheel import Slots

from .admission.admission import (
    Admitted,
    Refusal,
    TimerAdmission,
    TimerPutResult,
    accepted,
    refused,
)
from .admission.flow_control import FlowControl
from .cancel.cancellation import Cancellation
from .cancel.pending_listing import PendingTimers
from .clock.clock import Clock
from .levels.level_takeover import LevelTakeover
from .quarantine.quarantine import Quarantine
from .quarantine.quarantine_release import QuarantineRelease
from .records.timer_record import TIMER_TOPIC
from .recovery.needed_records import needed_from
from .recovery.read_ahead import ReadAhead
from .recovery.timer_files import TimerFiles
from .recovery.timer_flush import TimerFlush
from .recovery.timer_recovery import recover
from .stages.copied_slots import CopiedSlots
from .stages.dequeue_get import DequeueGet
from .stages.dequeue_get_message import DequeueGetMessage
from .stages.dequeue_put_message import DequeuePutMessage
from .stages.enqueue_get import EnqueueGet
from .stages.enqueue_put import EnqueuePut
from .stages.open_slots import OpenSlots
from .stages.timer_request import DeliverBatch, DequeueBatch, EnqueueBatch, ReadMark
from .state.timer_counts import LATENESS_BOUNDS_MS, TimerCounts, TimerStatistics
from .state.timer_options import TimerOptions
from .state.timer_state import TimerState
from .store_scrub import StoreScrub

ENQUEUE_CHANNEL_BATCHES = 2
"""Batches between stages 1 and 2: one being worked on, one ready."""
DEQUEUE_CHANNEL_BATCHES = 0
"""Between stages 3, 4 and 5 a batch is handed over, none is kept: what is under way there cannot be
overtaken, so a batch in a channel is late by the one before it, and all become small ones, while
those that are not yet made grow with what becomes due."""

RENEW_INTERVAL_S = 600
"""Between two looks for entries of the quarantine that have grown old."""

REWIND_MS = 60_000
"""A read pointer that is less far ahead of the clock is waited for."""

log = structlog.get_logger("timermq.pipeline.timer_message_store")


@attrs.frozen(eq=False)
class _Turn:
    """A change between a service that delivers and one that follows another broker's log."""

    is_parked: bool
    begin: Callable[[], None]
    """Called when no stage runs, in the step in which recovery looks at the log."""
    done: trio.Event = attrs.Factory(trio.Event)


class TimerMessageStore:
    """The service over an open message store.

    Args:
        store: Opened and recovered; its disk and root hold the timer files.
        options: See ``TimerOptions``.
        clock: The wall clock.

    Raises:
        StoreFormatError: A timer file is not what its name says; nothing was changed.
        OSError: The disk failed, or is full; opened again, recovery goes on.
    """

    def __init__(self, store: MessageStore, options: TimerOptions, clock: Clock) -> None:
        self.is_parked = False
        """Whether the log is a copy of another broker's; see ``park``."""
        self.store = store
        self.options = options
        self.clock = clock
        self.counts = TimerCounts()
        self.files = TimerFiles.open(store.disk, store.root, options)
        self._ahead = ReadAhead(store, self.files)
        self.persisted_ms = self.files.newest_time_ms(store.last_store_ms)
        """The newest time that the last run worked by; 0: none is known."""
        self._needed_at_end: tuple[int | None] | None = None
        """The part of the log that the next run needs, once this one has closed its files."""
        self._rewinds = self._ends = self._erases = False
        self._turn: _Turn | None = None
        self._has_rebuilt = False
        """A damaged chain has ended the stages once; a second one ends the service."""
        try:
            recovered = recover(self.files, store, options, clock.now_ms())
        except BaseException:
            self.files.close()
            raise
        precision_ms = options.timer_precision_ms
        self.quarantine = Quarantine(store, self.counts, self.files.metrics, precision_ms)
        """Messages that cannot be delivered."""
        self.state = TimerState(
            queue_offset=recovered.queue_offset,
            commit_queue_offset=recovered.queue_offset,
            write_ms=clock.now_ms() // precision_ms * precision_ms,
            read_ms=recovered.read_ms,
            commit_read_ms=recovered.read_ms,
            scan_py=recovered.scan_py,
            already_done=recovered.already_done,
            near_ms=2 * precision_ms + options.read_ahead_ms,
        )
        self.flow = FlowControl(options, self._linked)
        self.admission = TimerAdmission(options, self.flow.refuses)
        self.cancellation = Cancellation(
            store=store,
            state=self.state,
            quarantine=self.quarantine,
            options=options,
            clock=clock,
        )
        """Takes messages back and moves them, with a certain answer."""
        self.takeover = self._make_takeover()
        """Moves to the wheel what RocketMQ left waiting for classic levels."""
        self.release = QuarantineRelease(
            quarantine=self.quarantine,
            admission=self.admission,
            state=self.state,
            options=options,
            clock=clock,
            log_end=lambda: store.commit_log.max_offset,
        )
        """Ends what is in quarantine."""
        self._flush = TimerFlush(
            files=self.files, store=store, state=self.state, options=options, clock=clock
        )
        self.scrub = StoreScrub(store, self.files.timer_log, clock, self._meet_damaged_units)
        """Compares what is at rest with its seals."""
        store.on_arrival(self._arrived)
        store.pins.add("timers", self.needed_from)

    def _make_takeover(self) -> LevelTakeover:
        return LevelTakeover(
            store=self.store,
            admission=self.admission,
            quarantine=self.quarantine,
            state=self.state,
            options=self.options,
            clock=self.clock,
        )

    def put(self, messages: Sequence[Message], *, is_retry: bool = False) -> list[TimerPutResult]:
        """Store messages, each now or for its moment: the one entry of the service.

        Args:
            messages: As they came from a producer; at most what one batch of the store may hold.
            is_retry: They are a group's, for another try: see ``TimerAdmission.admit``.

        Returns:
            One result a message, in order. A refused message does not stop the others.
        """
        now_ms = self.clock.now_ms()
        decisions = self.admission.admit_all(messages, now_ms, is_retry=is_retry)
        moments = [one.deliver_ms for one in decisions if isinstance(one, Admitted)]
        waiting = [moment for moment in moments if moment is not None]
        if waiting:
            self.state.expect(min(waiting), now_ms)
        stored = iter(
            self.store.put([one.message for one in decisions if isinstance(one, Admitted)])
        )
        return [
            refused(one, now_ms) if isinstance(one, Refusal) else accepted(one, next(stored))
            for one in decisions
        ]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the stages until ``request_stop``; then write the last checkpoint and close.

        Cancellation: everything delivered so far is in the commit log; the next start finds out.
        """
        try:
            await self._run_until_damage(task_status)
            while self._rewinds:
                self._begin_anew()
                await self._run_until_damage(trio.TASK_STATUS_IGNORED)
        finally:
            self._needed_at_end = (self.needed_from(),)
            self.files.close()

    async def _run_until_damage(self, task_status: trio.TaskStatus[None]) -> None:
        """Run the stages; damage ends them, and they begin again: once, if no seal tells of it."""
        try:
            await self._run_stages(task_status)
        except* ChainError as damage:
            scrub = self.files.timer_log.scrub  # the unit that is told may be a sound one
            if damage.subgroup(DamagedUnitError) is None and scrub.is_all_sound():
                if self._has_rebuilt:
                    raise
                self._has_rebuilt = True
            self._rewinds = self._erases = not self._ends
            log.error("timer log is damaged", exc_info=damage)

    async def _run_stages(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as outer:
            outer.start_soon(self._flush.run, name="timer_flush")
            outer.start_soon(self.scrub.run, name="scrub")
            if self.is_parked:
                outer.start_soon(self._ahead.run, name="read_ahead")
            else:
                outer.start_soon(self._renew, name="quarantine")
                outer.start_soon(self.takeover.run, name="level_takeover")
                outer.start_soon(self.takeover.keep_offsets, name="level_offsets")
            async with trio.open_nursery() as stages:
                self._start_stages(stages)
                task_status.started()
            outer.cancel_scope.cancel()
        await self._flush.flush()
        await self.takeover.save()

    async def _renew(self) -> None:
        """Keep what is in quarantine near the end of the log, for ever."""
        while True:
            await trio.sleep(RENEW_INTERVAL_S)
            while self.quarantine.renew(self.clock.now_ms()):
                await trio.lowlevel.checkpoint()

    def request_stop(self) -> None:
        """Let the stages finish what they hold and end; ``run`` returns when they have."""
        self._rewinds, self._ends = False, True
        self.state.stop()

    def rewind(self) -> bool:
        """Bring the wheel back to the present, which the operator has confirmed (``clock accept``).

        A wheel whose read pointer was taken ahead by a wrong clock works, but gathers in one slot
        all that is due before. So the stages end, what the wheel has is forgotten, and recovery
        rebuilds it from the commit log: whatever has reached its topic is left out there. That
        reads the whole log, and nothing is answered meanwhile.

        Returns:
            Whether that was necessary; it happens soon, in ``run``.
        """
        if self.state.read_ms - self.clock.now_ms() < REWIND_MS or self.state.stopping:
            return False
        self._make_anew()
        return True

    def _meet_damaged_units(self) -> None:
        """Make all units again from the commit log if a damaged one is still to be read."""
        oldest_pos = self.files.wheel.oldest_pos(self.state.read_ms)
        if oldest_pos is not None and max(self.files.timer_log.damaged) + SECTOR_SIZE > oldest_pos:
            self._make_anew()

    def park(self) -> None:
        """Begin as a follower, before ``run``; the log is a copy of another broker's.

        Nothing may be written to it: stages 1 and 2 follow it, all others wait for ``lead``.
        """
        self.is_parked = self.quarantine.is_parked = True

    async def lead(self, begin: Callable[[], None]) -> None:
        """Let a parked service deliver, from where the copied log says: nothing is missed or twice.

        What a start would find in the log is found now: recovery reads the tail of it. Returns when
        all stages run.

        Args:
            begin: Called in the step in which recovery looks at the log: from then on the store may
                be written.

        Cancellation: it leads all the same, soon.
        """
        await self._take_turn(_Turn(is_parked=False, begin=begin))

    def pass_slots(self, *, read_ms: int, queue_offset: int, scan_py: int) -> bool:
        """Take slots as delivered by the master that is followed; see ``CopiedSlots.pass_by``."""
        if not self.is_parked:
            return False
        slots = CopiedSlots(
            timer_log=self.files.timer_log,
            wheel=self.files.wheel,
            state=self.state,
            options=self.options,
            ahead=self._ahead,
        )
        try:
            return slots.pass_by(read_ms=read_ms, queue_offset=queue_offset, scan_py=scan_py)
        except ChainError as damage:
            log.error("timer log is damaged", exc_info=damage)
            self._make_anew()
            return False

    async def follow(self, begin: Callable[[], None]) -> None:
        """Park a service that delivers; returns when what was under way is written.

        Args:
            begin: Called in the step in which nothing is written any more.

        Cancellation: it is parked all the same, soon.
        """
        await self._take_turn(_Turn(is_parked=True, begin=begin))

    async def _take_turn(self, turn: _Turn) -> None:
        if self._turn is not None or self._ends:
            raise RuntimeError("expected a service with no change under way that does not end")
        self._turn = turn
        # A rewind may have stopped the stages already: it takes the turn along.
        self._rewinds = True
        self.state.stop()
        await turn.done.wait()

    def _make_anew(self) -> None:
        """End the stages; wheel and timer log are made of the commit log then, in ``run``."""
        if not self.state.stopping:
            self._rewinds = self._erases = True
            self.state.stop()

    def _begin_anew(self) -> None:
        turn, self._turn = self._turn, None
        erases, self._rewinds, self._erases = self._erases, False, False
        now_ms = self.clock.now_ms()
        if turn is not None:
            self.is_parked = self.quarantine.is_parked = turn.is_parked
            turn.begin()
            self.quarantine.load()
        if erases:
            log.warning("wheel begins anew", from_ms=self.state.read_ms, to_ms=now_ms)
            self.files.erase(now_ms)
        store, runs, ahead = self.store, turn is not None, self._ahead.taken()
        recovered = recover(self.files, store, self.options, now_ms, runs=runs, ahead=ahead)
        self.state.begin_anew(
            read_ms=recovered.read_ms,
            queue_offset=recovered.queue_offset,
            scan_py=recovered.scan_py,
            already_done=recovered.already_done,
        )
        if turn is not None:
            self.takeover = self._make_takeover()
            turn.done.set()

    def _start_stages(self, nursery: trio.Nursery) -> None:
        store, state, options, counts = self.store, self.state, self.options, self.counts
        files, clock, is_copy = self.files, self.clock, self.is_parked
        enqueue = trio.open_memory_channel[EnqueueBatch](ENQUEUE_CHANNEL_BATCHES)
        dequeue = trio.open_memory_channel[DequeueBatch | ReadMark](DEQUEUE_CHANNEL_BATCHES)
        deliver = trio.open_memory_channel[DeliverBatch | ReadMark](DEQUEUE_CHANNEL_BATCHES)
        get = EnqueueGet(
            store=store, state=state, options=options, clock=clock, counts=counts, is_copy=is_copy
        )
        put = EnqueuePut(
            timer_log=files.timer_log,
            wheel=files.wheel,
            metrics=files.metrics,
            quarantine=self.quarantine,
            flow=self.flow,
            state=state,
            options=options,
            clock=clock,
            counts=counts,
        )
        slots = OpenSlots(
            store=store,
            timer_log=files.timer_log,
            wheel=files.wheel,
            state=state,
            options=options,
            counts=counts,
        )
        read = DequeueGet(
            store=store, wheel=files.wheel, slots=slots, state=state, options=options, clock=clock
        )
        bodies = DequeueGetMessage(
            store=store, files=files, state=state, options=options, counts=counts
        )
        publish = DequeuePutMessage(
            store=store,
            metrics=files.metrics,
            quarantine=self.quarantine,
            state=state,
            options=options,
            clock=clock,
            counts=counts,
        )
        nursery.start_soon(get.run, enqueue[0], name="enqueue_get")
        nursery.start_soon(put.run, enqueue[1], name="enqueue_put")
        if self.is_parked:
            return
        nursery.start_soon(read.run, dequeue[0], name="dequeue_get")
        nursery.start_soon(bodies.run, dequeue[1], deliver[0], name="dequeue_get_message")
        nursery.start_soon(publish.run, deliver[1], name="dequeue_put_message")

    def pending(self) -> PendingTimers:
        """The pending messages, as seen from now."""
        state = self.state
        return PendingTimers(
            store=self.store,
            files=self.files,
            options=self.options,
            read_ms=state.read_ms,
            queue_offset=state.commit_queue_offset,
            already_done=state.already_done,
        )

    def needed_from(self) -> int | None:
        """Position of the oldest record that cleaning must leave; None without any."""
        if self._needed_at_end is not None:
            return self._needed_at_end[0]
        pins = (
            self.quarantine.first_py(),
            self.takeover.first_py(),
            needed_from(self.store, self.files, self.state),
        )
        return min((one for one in pins if one is not None), default=None)

    def live(self) -> Slots:
        """The slots that are still to be read."""
        return self.files.wheel.live(self.state.read_ms)

    def statistics(self, live: Slots | None = None) -> TimerStatistics:
        """A moment's picture; reads memory only.

        Args:
            live: What ``live`` gave just now, from who needs it too.
        """
        state, counts, admission = self.state, self.counts, self.admission.counts
        queue = self.store.queue(TIMER_TOPIC, 0)
        live = self.live() if live is None else live
        return TimerStatistics(
            now_ms=self.clock.now_ms(),
            read_ms=state.read_ms,
            commit_read_ms=state.commit_read_ms,
            queue_offset=state.queue_offset,
            commit_queue_offset=state.commit_queue_offset,
            queue_offset_max=queue.max_offset if queue is not None else 0,
            pending=int(live["num"].sum()),
            timers=admission.timers,
            already_due=admission.already_due,
            levels_clamped=admission.levels_clamped,
            refused=dict(admission.refused),
            enqueued=counts.enqueued,
            rolled=counts.rolled,
            delivered=counts.delivered,
            cancelled=counts.cancelled,
            repeated=counts.repeated,
            missing=counts.missing,
            set_aside=counts.set_aside,
            retried=counts.retried,
            quarantined=self.quarantine.active,
            last_set_aside=self.quarantine.last,
            enqueue_backoff=attrs.evolve(counts.enqueue_backoff),
            deliver_backoff=attrs.evolve(counts.deliver_backoff),
            early=counts.early,
            lateness_bounds_ms=LATENESS_BOUNDS_MS,
            lateness=tuple(counts.lateness.tolist()),
            lateness_max_ms=counts.lateness_max_ms,
            lateness_sum_ms=counts.lateness_sum_ms,
            pending_by_topic=self.files.metrics.counts(),
            levels_left=self.takeover.left,
        )

    def _linked(self, slot_ms: int) -> int:
        slot = self.files.wheel.slot(slot_ms)
        return 0 if slot is None else slot.num

    def _arrived(self, queue: ConsumeQueue) -> None:
        if queue.topic == TIMER_TOPIC:
            self.state.arrived.set()
