"""Stage 2: a timer-log unit and a wheel slot for each timer.

Every entry takes the same way, due or not: its unit is appended, its slot points at the unit, and
only then does ``commit_queue_offset`` move past it. The slot is

- the one asked for, when it is open or ahead;
- the slot that is being read, when the one asked for is closed already (the message is due: the
  reader of the open slot picks it up at once, in its order);
- a slot on the way, with the roll bit, when it lies beyond the window, or beyond the ring: after a
  long outage the ring still begins where the last run ended.

Source: Java ``TimerMessageStore.doEnqueue``, ``TimerEnqueuePutService``.
"""

from __future__ import annotations

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerlog import (
    MAGIC_ROLL,
    UNIT,
    TimerLog,
    TimerMetrics,
    numbers_in_slot,
    pack_exact,
)
from timermq.timerlog.unit import Units
from timermq.timerstore.disk import is_for_a_while
from timermq.wheel import TimerWheel

from ..admission.flow_control import FlowControl
from ..clock.clock import Clock
from ..quarantine.quarantine import Quarantine
from ..state.timer_counts import TimerCounts
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .roll import window_slots
from .timer_request import EnqueueBatch

INT32_MAX = 2**31 - 1

log = structlog.get_logger("timermq.pipeline.stages.enqueue_put")


@attrs.frozen(eq=False, kw_only=True)
class EnqueuePut:
    """The stage; ``run`` is its task."""

    timer_log: TimerLog
    wheel: TimerWheel
    metrics: TimerMetrics
    quarantine: Quarantine
    flow: FlowControl
    state: TimerState
    options: TimerOptions
    clock: Clock
    counts: TimerCounts

    async def run(self, source: trio.MemoryReceiveChannel[EnqueueBatch]) -> None:
        """Write every batch until ``source`` ends.

        A service that stops does not wait for room: what has none is read again by the next run,
        and so is all that comes behind it.

        Cancellation: a batch is written whole or not at all, and ``commit_queue_offset`` moves with
        it in the same step.
        """
        has_room = True
        async for batch in source:
            while has_room and not self.put(batch):
                has_room = not self.state.stopping
                if has_room:
                    await self._wait_for_room()

    def put(self, batch: EnqueueBatch) -> bool:
        """Append the units and link them; False when the ring or the disk has no room just now."""
        state = self.state
        if batch.undeliverable and not self._keep_undeliverable(batch):
            return False
        if len(batch):
            targets, rolled = self._targets(batch)
            occupied = self.wheel.occupied(targets, state.commit_read_ms)
            if occupied.any() or not self._append(batch, targets, rolled):
                return False
            self.counts.enqueue_backoff.over()
            for topic, count in batch.arrivals.items():
                self.metrics.add(topic, count)
            self.counts.enqueued += len(batch)
            if state.concerns_awaited(int(targets.min())):
                state.slots_changed.set()
        state.commit_queue_offset = batch.next_queue_offset
        state.committed.set()
        self.flow.settled()
        state.forget_what_is_done()
        return True

    def _keep_undeliverable(self, batch: EnqueueBatch) -> bool:
        """Keep what no timer can be made of; False when the store does not take it just now."""
        now_ms = self.clock.now_ms()
        refusal = self.quarantine.add(batch.undeliverable, now_ms)
        if refusal is None:
            return True
        self._hold_up(len(batch.undeliverable), refusal)
        return False

    def _hold_up(self, count: int, error: str) -> None:
        """There is no room on the disk."""
        backoff = self.counts.enqueue_backoff
        backoff.again(count, self.clock.now_ms(), error)
        if backoff.is_news:
            log.warning("no room for timers, waiting", count=count, error=error)

    def _targets(self, batch: EnqueueBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slot of each unit, and which of them only wait there for a roll."""
        options, state = self.options, self.state
        precision_ms = options.timer_precision_ms
        state.write_ms = max(
            state.write_ms, self.clock.now_ms() // precision_ms * precision_ms, state.read_ms
        )
        return window_slots(
            batch.out_ms,
            batch.offset_py,
            read_ms=state.read_ms,
            write_ms=state.write_ms,
            ring_end_ms=self.wheel.end_ms(state.commit_read_ms),
            window_ms=options.roll_window_ms,
            precision_ms=precision_ms,
        )

    def _append(
        self, batch: EnqueueBatch, targets: NDArray[np.int64], rolled: NDArray[np.bool_]
    ) -> bool:
        positions = self.timer_log.positions(len(batch))
        plan = self.wheel.plan(targets, positions, numbers_in_slot(batch.magic))
        units = units_of(batch, targets, rolled, write_ms=self.state.write_ms)
        units["prev_pos"] = plan.prev_pos
        try:
            self.timer_log.append(units)
        except OSError as error:
            if not is_for_a_while(error):
                raise
            self._hold_up(len(batch), str(error))
            return False
        self.wheel.apply(plan)
        return True

    async def _wait_for_room(self) -> None:
        """Until slots are delivered (the ring has lapped) or some time has passed (a full disk)."""
        pause_s = self.counts.enqueue_backoff.pause_s(self.options.retry_interval_ms)
        await self.state.slot_closed.wait_at_most(pause_s)


def units_of(
    batch: EnqueueBatch,
    targets: NDArray[np.int64],
    rolled: NDArray[np.bool_],
    *,
    write_ms: int,
) -> Units:
    """Make the units; ``prev_pos`` is 0.

    Args:
        batch: The entries.
        targets: The slot of each.
        rolled: Which of them only wait there for a roll.
        write_ms: The slot of the present.
    """
    units = np.zeros(len(batch), UNIT.dtype)
    units["size"] = UNIT.size
    units["magic"] = batch.magic | np.where(rolled, MAGIC_ROLL, 0)
    # The slot is the sum of both; the second has 32 bits, less than a month.
    written_ms = np.maximum(np.minimum(write_ms, targets), targets - INT32_MAX)
    units["write_ms"] = written_ms
    units["delay_ms"] = targets - written_ms
    units["offset_py"] = batch.offset_py
    units["size_py"] = batch.size_py
    units["topic_hash"] = batch.topic_hash
    # A unit in another slot than the one asked for tells its moment only through its record.
    exact = (targets == batch.out_ms) | rolled
    units["reserved"] = np.where(
        exact, pack_exact(batch.order_py, batch.deliver_ms - batch.out_ms - 1), 0
    )
    return units
