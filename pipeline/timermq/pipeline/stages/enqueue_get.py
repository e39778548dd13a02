"""Stage 1: reads the timer topic's queue and says what each entry asks for.

Entries are read in order from ``queue_offset`` on, in batches, each record once. A record that no
timer can be made of goes with its batch to be quarantined (``quarantine``), and the wheel goes on.
(RocketMQ's ``TimerMessageStore.enqueue`` reads the same record again and again, and with it stops
every timer of the broker.)

Source: Java ``TimerMessageStore.enqueue``, ``TimerEnqueueGetService``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_SECOND
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record_block import RecordBlock

from ..clock.clock import Clock
from ..records.record_kin import RecordKin
from ..records.timer_columns import read_columns
from ..records.timer_properties import DELETE
from ..records.timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_present,
    decode_timer,
)
from ..records.torn_move import is_torn_move
from ..records.undeliverable import Reason, Undeliverable
from ..state.timer_counts import TimerCounts
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .timer_request import EnqueueBatch

COLUMNS_COUNT_MIN = 128
"""Fewer records are read one by one in less time."""

COPY_PAUSE_S = 0.02
"""Time in which entries gather while the log is a copy: nothing is delivered then, and what is
being copied comes first."""

log = structlog.get_logger("timermq.pipeline.stages.enqueue_get")


@attrs.frozen(eq=False, kw_only=True)
class EnqueueGet:
    """The stage; ``run`` is its task."""

    store: MessageStore
    state: TimerState
    options: TimerOptions
    clock: Clock
    counts: TimerCounts
    is_copy: bool = False
    """The log is a copy that grows by single records: what belongs together may come apart."""

    async def run(self, sink: trio.MemorySendChannel[EnqueueBatch]) -> None:
        """Read and send until ``stopping``; then close ``sink``.

        Cancellation: entries from ``queue_offset`` on are read again by the next run; the commit
        offset moves only behind what stage 2 wrote.
        """
        with sink:
            while not self.state.stopping:
                batch = self.next_batch()
                if batch is None:
                    await self.state.arrived.wait()
                    await self._let_grow()
                else:
                    await sink.send(batch)
                    if self.is_copy and len(batch.offset_py) < self.options.enqueue_batch_count_max:
                        await self.state.called.wait_at_most(COPY_PAUSE_S)

    async def _let_grow(self) -> None:
        """Give a batch some milliseconds to grow, unless something in it is due soon.

        Reading and linking cost the same for one message as for a hundred. Nothing is late by it:
        stage 3 calls before it opens a slot, and what is due within ``URGENT_MS`` is not kept
        waiting.
        """
        wait_ms = self.options.enqueue_linger_ms
        if wait_ms and not self.state.is_urgent(self.clock.now_ms()):
            await self.state.called.wait_at_most(wait_ms / 1000)

    def next_batch(self) -> EnqueueBatch | None:
        """Read at most ``enqueue_batch_count_max`` entries; None when there are none."""
        state = self.state
        queue = self.store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return None
        state.queue_offset = max(state.queue_offset, queue.min_offset)
        count_max = self.options.enqueue_batch_count_max
        left = state.already_done.until_queue_offset - state.queue_offset
        if left > 0:
            # No batch has both: what the last run left, and what came since.
            count_max = min(count_max, left)
        units = queue.units(state.queue_offset, count_max)
        if self.is_copy and len(units) and self._waits_for_more(units):
            units = units[:-1]
        if not len(units):
            return None
        state.queue_offset += len(units)
        return self._batch(units["phy_offset"].astype(np.int64), units["size"].astype(np.int32))

    def _waits_for_more(self, units: NDArray[np.void]) -> bool:
        """Whether the last entry is a move whose message has not been copied yet."""
        phy_offset, size, _ = units[-1].tolist()
        return is_torn_move(self.store, self.store.commit_log.read(phy_offset, size))

    def _batch(self, offset_py: NDArray[np.int64], size_py: NDArray[np.int32]) -> EnqueueBatch:
        done = self.state.already_done
        repeats = done.enqueue_repeats(offset_py) if done else None
        if repeats is not None and repeats.any():
            self.counts.repeated += int(repeats.sum())
            offset_py, size_py = offset_py[~repeats], size_py[~repeats]
        commit_log = self.store.commit_log
        block = None
        if len(offset_py) >= COLUMNS_COUNT_MIN and not done.doubts:
            block = commit_log.block_at(offset_py, size_py.astype(np.int64))
        if block is not None:
            batch = self._columns_batch(block, offset_py, size_py)
            return batch or self._any_batch(block.records(), offset_py, size_py)
        places = zip(offset_py.tolist(), size_py.tolist(), strict=True)
        return self._any_batch(commit_log.records_at(places), offset_py, size_py)

    def _columns_batch(
        self, block: RecordBlock, offset_py: NDArray[np.int64], size_py: NDArray[np.int32]
    ) -> EnqueueBatch | None:
        """The batch, if its records are a run, and none is a delete."""
        return columns_batch(
            block,
            offset_py,
            size_py,
            precision_ms=self.options.timer_precision_ms,
            next_queue_offset=self.state.queue_offset,
        )

    def _any_batch(
        self,
        records: Iterable[bytes | None],
        offset_py: NDArray[np.int64],
        size_py: NDArray[np.int32],
    ) -> EnqueueBatch:
        rows = zip(offset_py.tolist(), size_py.tolist(), records, strict=True)
        undeliverable: list[Undeliverable] = []
        read = [self._facts(record, offset, size, undeliverable) for offset, size, record in rows]
        kept = [index for index, fact in enumerate(read) if fact is not None]
        facts = [fact for fact in read if fact is not None]
        done = self.state.already_done
        is_left = done.is_recounted and self.state.queue_offset <= done.until_queue_offset
        arrivals = Counter(
            fact.destination.topic
            for fact in facts
            if (is_left or not fact.rolls) and not fact.is_delete
        )
        return facts_batch(
            facts,
            offset_py[kept],
            size_py[kept],
            arrivals=dict(arrivals),
            next_queue_offset=self.state.queue_offset,
            undeliverable=undeliverable,
        )

    def _facts(
        self, record: bytes | None, offset: int, size: int, undeliverable: list[Undeliverable]
    ) -> TimerFacts | None:
        """The request of a record; None when no timer can be made of it."""
        try:
            facts = decode_present(record, offset, size, self.options.timer_precision_ms)
            if self.state.already_done.doubts and not facts.is_delete:
                self._check_doubts(record or b"", offset, facts)
        except TimerRecordError as error:
            again = None
            if error.reason is not Reason.IN_DOUBT:
                again = self._facts_of_delete(offset, size)
            if again is None:
                undeliverable.append(Undeliverable.of(error, offset, size, record))
            return again
        assert record is not None
        if facts.is_delete and is_torn_move(self.store, record):
            log.warning("a move was cut off by a power cut", phy_offset=offset)
            return None
        return facts

    def _facts_of_delete(self, offset: int, size: int) -> TimerFacts | None:
        """The request of a delete whose record is damaged; None if it is none, or not certain."""
        precision_ms = self.options.timer_precision_ms
        kin = RecordKin(self.store, precision_ms, offset, size)
        again = kin.delete_again(offset) if kin.is_delete() else None
        return None if again is None else decode_timer(again, offset, precision_ms)

    def _check_doubts(self, record: bytes, offset: int, facts: TimerFacts) -> None:
        """Refuse a message that a damaged record may have delivered, or rolled: see ``roll``.

        Raises:
            TimerRecordError: It may.
        """
        options = self.options
        leg_ms = options.roll_window_ms // 2 - options.timer_precision_ms
        first_ms = min(facts.deliver_ms, store_ms_of(record) + leg_ms)
        topic = facts.destination.topic
        self.state.already_done.check_doubts(offset, first_ms, topic)


def columns_batch(
    block: RecordBlock,
    offset_py: NDArray[np.int64],
    size_py: NDArray[np.int32],
    *,
    precision_ms: int,
    next_queue_offset: int = 0,
) -> EnqueueBatch | None:
    """The batch, if its records are a run, and none is a delete.

    Args:
        block: The records.
        offset_py: Their position in the log.
        size_py: Their sizes.
        precision_ms: Width of a slot.
        next_queue_offset: As in the batch.
    """
    if DELETE in block.text_behind_bodies():
        return None
    timers = read_columns(block, precision_ms)
    if timers is None:
        return None
    topic_hashes = np.array([to.topic_hash for to in timers.destinations], np.int32)
    return EnqueueBatch(
        offset_py=offset_py,
        size_py=size_py,
        out_ms=timers.out_ms,
        deliver_ms=timers.deliver_ms,
        order_py=offset_py,
        topic_hash=topic_hashes[timers.destination_of],
        magic=np.full(len(block), MAGIC_DEFAULT, np.int32),
        arrivals=timers.by_topic(),
        next_queue_offset=next_queue_offset,
    )


def facts_batch(
    facts: Sequence[TimerFacts],
    offset_py: NDArray[np.int64],
    size_py: NDArray[np.int32],
    *,
    arrivals: Mapping[str, int] | None = None,
    next_queue_offset: int = 0,
    undeliverable: Sequence[Undeliverable] = (),
) -> EnqueueBatch:
    """The batch of records that were read one by one.

    Args:
        facts: What each says.
        offset_py: Their position in the log.
        size_py: Their sizes.
        arrivals: As in the batch.
        next_queue_offset: The same.
        undeliverable: The same.
    """
    magic = [MAGIC_DEFAULT | _delete_bits(fact) for fact in facts]
    return EnqueueBatch(
        offset_py=offset_py,
        size_py=size_py,
        out_ms=np.array([fact.out_ms for fact in facts], np.int64),
        deliver_ms=np.array([fact.deliver_ms for fact in facts], np.int64),
        order_py=np.array([fact.order_py for fact in facts], np.int64),
        topic_hash=np.array([fact.destination.topic_hash for fact in facts], np.int32),
        magic=np.array(magic, np.int32),
        arrivals=dict(arrivals or {}),
        next_queue_offset=next_queue_offset,
        undeliverable=list(undeliverable),
    )


def _delete_bits(facts: TimerFacts) -> int:
    if not facts.is_delete:
        return 0
    return MAGIC_DELETE | MAGIC_SECOND if facts.is_second else MAGIC_DELETE
