"""Stage 1: reads the timer topic's queue and says what each entry asks for.

Entries are read in order from ``queue_offset`` on, in batches, each record once. A record that no
timer can be made of is set aside: it stays where it is in the commit log, is counted and named in
the log, and the wheel goes on. (RocketMQ retries the same record for ever, and with it stops every
timer of the broker: store-and-timer 22.2.)

Source: Java ``TimerMessageStore.enqueue``, ``TimerEnqueueGetService``.
"""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE
from timermq.timerstore.message_store import MessageStore

from .timer_counts import TimerCounts
from .timer_options import TimerOptions
from .timer_record import DELETE, TIMER_TOPIC, TimerFacts, TimerRecordError, decode_timer
from .timer_request import EnqueueBatch
from .timer_state import TimerState

log = structlog.get_logger("timermq.pipeline.enqueue_get")


@attrs.frozen(eq=False, kw_only=True)
class EnqueueGet:
    """The stage; ``run`` is its task."""

    store: MessageStore
    state: TimerState
    options: TimerOptions
    counts: TimerCounts

    async def run(self, sink: trio.MemorySendChannel[EnqueueBatch]) -> None:
        """Read and send until ``stopping``; then close ``sink``.

        Cancellation: entries from ``queue_offset`` on are read again by the next run; the commit
        offset moves only behind what stage 2 wrote.
        """
        async with sink:
            while not self.state.stopping:
                batch = self.next_batch()
                if batch is None:
                    await self.state.arrived.wait()
                else:
                    await sink.send(batch)

    def next_batch(self) -> EnqueueBatch | None:
        """Read at most ``enqueue_batch_count_max`` entries; None when there are none."""
        state = self.state
        queue = self.store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return None
        state.queue_offset = max(state.queue_offset, queue.min_offset)
        units = queue.units(state.queue_offset, self.options.enqueue_batch_count_max)
        if not len(units):
            return None
        state.queue_offset += len(units)
        return self._batch(units["phy_offset"].astype(np.int64), units["size"].astype(np.int32))

    def _batch(self, offset_py: NDArray[np.int64], size_py: NDArray[np.int32]) -> EnqueueBatch:
        kept, facts = self._read(offset_py, size_py)
        arrivals = Counter(
            fact.destination.topic for fact in facts if not fact.rolls and not fact.is_delete
        )
        return EnqueueBatch(
            offset_py=offset_py[kept],
            size_py=size_py[kept],
            out_ms=np.array([fact.out_ms for fact in facts], np.int64),
            deliver_ms=np.array([fact.deliver_ms for fact in facts], np.int64),
            order_py=np.array([fact.order_py for fact in facts], np.int64),
            topic_hash=np.array([fact.destination.topic_hash for fact in facts], np.int32),
            magic=np.array(
                [MAGIC_DEFAULT | (MAGIC_DELETE if fact.is_delete else 0) for fact in facts],
                np.int32,
            ),
            arrivals=dict(arrivals),
            next_queue_offset=self.state.queue_offset,
        )

    def _read(
        self, offset_py: NDArray[np.int64], size_py: NDArray[np.int32]
    ) -> tuple[list[int], list[TimerFacts]]:
        """Which entries are timers that still need a unit, and what they ask for."""
        done = self.state.already_done
        repeats = done.enqueue_repeats(offset_py).tolist() if done else None
        kept: list[int] = []
        facts: list[TimerFacts] = []
        precision_ms = self.options.timer_precision_ms
        entries = list(zip(offset_py.tolist(), size_py.tolist(), strict=True))
        records = list(self.store.commit_log.records_at(entries))
        # Looked for once in all of them: a tenth of the time.
        may_delete = DELETE in b"".join([record or b"" for record in records])
        for index, ((offset, size), record) in enumerate(zip(entries, records, strict=True)):
            if repeats is not None and repeats[index]:
                self.counts.repeated += 1
                continue
            if record is None:
                self.counts.missing += 1
                log.warning("timer record is gone", phy_offset=offset, size=size)
                continue
            try:
                facts.append(decode_timer(record, offset, precision_ms, may_delete=may_delete))
            except TimerRecordError as error:
                self.counts.set_aside += 1
                log.error("timer record set aside", phy_offset=offset, reason=str(error))
                continue
            kept.append(index)
        return kept, facts
