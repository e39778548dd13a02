"""The shared state of the stages: positions, memory, and the signals between them.

The way back of the pipeline. A stage hands batches on by its channel, and learns by these fields
how far the others are. Which part writes a field and which reads it, who sets a signal and who
waits, stands in docs/design.md, *What the stages share*; a test holds these tables to the code.

Only the pair (commit_read_ms, scan_py) and commit_queue_offset become durable, and only behind what
they describe (ORDERED_DURABILITY).
"""

from __future__ import annotations

from collections import deque

import attrs

from ..records.deduplication import AlreadyDone
from .fresh_cancels import FreshCancels
from .signal import Signal

URGENT_MS = 100
"""Messages due sooner are linked without delay."""


@attrs.define(eq=False, kw_only=True)
class TimerState:
    """The shared state of the stages of one timer service; times are epoch milliseconds.

    All tasks are of one event loop, so there are no locks.
    """

    queue_offset: int
    """Next entry of the timer topic to read."""
    commit_queue_offset: int
    """Entries of the timer topic below it are linked, or quarantined."""
    write_ms: int
    """Slot of the present, as the units record it."""
    read_ms: int
    """Slots before it are closed: nothing is linked there."""
    commit_read_ms: int
    """Slots before it have reached their topics."""
    scan_py: int
    """From this position of the log on stand deliveries of slots that are not committed."""
    already_done: AlreadyDone
    """The last run's work beyond its checkpoint; empty after a clean stop."""
    near_ms: int
    """Slots further ahead than that of the newest open one (``open_to_ms``) are not open."""
    awaited_ms: int | None = None
    """Slot that dequeue_get sleeps for; None while it is awake or nothing is pending."""
    rolled_ms: int = attrs.field(default=0, init=False)
    """Rolls of the slots before it are written. Ahead of ``commit_read_ms`` while messages stand
    aside because the clock was set back."""
    stopping: bool = False
    """Set by a graceful stop, and before the wheel is rebuilt: enqueue_get and dequeue_get finish
    what they hold and leave, and enqueue_put waits for no room."""
    fresh_cancels: FreshCancels = attrs.field(factory=FreshCancels, init=False)
    """Cancels that the wheel does not show yet, or too late."""
    urgent_until_ms: int = attrs.field(default=0, init=False)
    """Before it enqueue_get reads at once what arrives."""
    called: Signal = attrs.field(factory=Signal, init=False)
    """Somebody waits for what has arrived, or the service stops (wakes enqueue_get from letting a
    batch grow)."""
    arrived: Signal = attrs.field(factory=Signal, init=False)
    """The timer topic has new entries, or the service stops (wakes enqueue_get)."""
    slots_changed: Signal = attrs.field(factory=Signal, init=False)
    """A slot at or before the awaited one changed, empty slots are to be passed, or the service
    stops (wakes dequeue_get)."""
    committed: Signal = attrs.field(factory=Signal, init=False)
    """``commit_queue_offset`` moved, or the service stops (wakes dequeue_get)."""
    published: Signal = attrs.field(factory=Signal, init=False)
    """``rolled_ms`` or ``commit_read_ms`` moved, or the service stops (wakes dequeue_get)."""
    under_way: deque[int] = attrs.field(factory=deque[int], init=False)
    """Batches that dequeue_get has sent and dequeue_put_message has not finished, in order: the
    position of the oldest body of each, which no slot may show any more."""
    early_py: int | None = attrs.field(default=None, init=False)
    """Position of the oldest body of what steps aside in dequeue_put_message; None: of nothing."""
    all_delivered: Signal = attrs.field(factory=Signal, init=False)
    """``under_way`` is empty, or the service stops (wakes dequeue_get)."""
    slot_closed: Signal = attrs.field(factory=Signal, init=False)
    """``read_ms`` or ``commit_read_ms`` moved, or the service stops (wakes enqueue_put when the
    ring is full)."""

    def begin_anew(
        self, *, read_ms: int, queue_offset: int, scan_py: int, already_done: AlreadyDone
    ) -> None:
        """Take the positions of another recovery; no stage may run.

        Args:
            read_ms: Slots before it are closed, and committed.
            queue_offset: Entries of the timer topic below it are linked.
            scan_py: See the field.
            already_done: What recovery found done.
        """
        self.queue_offset = self.commit_queue_offset = queue_offset
        self.write_ms = self.read_ms = self.commit_read_ms = read_ms
        self.rolled_ms = 0
        self.under_way.clear()
        self.early_py = None
        self.scan_py = scan_py
        self.already_done = already_done
        self.fresh_cancels = FreshCancels()
        self.awaited_ms, self.stopping = None, False

    def stop(self) -> None:
        """Ask the stages to finish; wakes whatever waits."""
        self.stopping = True
        for signal in (
            *(self.called, self.arrived, self.slots_changed, self.committed),
            *(self.published, self.all_delivered, self.slot_closed),
        ):
            signal.set()

    def expect(self, deliver_ms: int, now_ms: int) -> None:
        """A message for this moment is stored in this step of the event loop."""
        if deliver_ms < now_ms + URGENT_MS:
            self.urgent_until_ms = now_ms + 2 * URGENT_MS
            self.called.set()

    def is_urgent(self, now_ms: int) -> bool:
        """Whether something may be due soon that is not read yet."""
        return now_ms < self.urgent_until_ms

    def forget_what_is_done(self) -> None:
        """Let go of what the positions show by now; called when one of them has moved."""
        self.already_done.forget(slot_ms=self.commit_read_ms, queue_offset=self.commit_queue_offset)
        self.fresh_cancels.forget(
            commit_queue_offset=self.commit_queue_offset,
            near_ms=self.open_to_ms() + self.near_ms,
            commit_read_ms=self.commit_read_ms,
        )

    def open_to_ms(self) -> int:
        """No later slot is open, nor did the last run link anything late in one."""
        return max(self.write_ms, self.read_ms, self.already_done.until_slot_ms)

    def oldest_leaving_py(self) -> int | None:
        """Position of the oldest body that has left its slot and is not delivered; None: none."""
        leaving = (*self.under_way, *(() if self.early_py is None else (self.early_py,)))
        return min(leaving, default=None)

    def meet(self, offset_py: int) -> None:
        """A due record is left out; it may be one that was cancelled."""
        self.fresh_cancels.meet(offset_py, self.open_to_ms())

    def concerns_awaited(self, slot_ms: int) -> bool:
        """Whether a unit in ``slot_ms`` can be due before or in the slot that is slept for."""
        return self.awaited_ms is None or slot_ms <= self.awaited_ms
