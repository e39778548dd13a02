"""Stage 5: writes due messages to their real topics, and rolled ones back to the timer topic.

This is the last gate before a message can be seen (NOT_BEFORE): a batch is written only when the
wall clock has reached the moment of each of its messages, whatever the stages before believed. A
clock that was set back makes the batch wait.

A message that the store cannot take now (disk full, log failing over) is put again until it can:
only what failed, in order. A message that the store will never take is set aside and counted.
Nothing is dropped after a number of tries.

Each record names its origin (ONCE): see ``already_done``.

Source: Java ``TimerMessageStore.TimerDequeuePutMessageService``, ``convertMessage``.
"""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import structlog
import trio

from timermq.timerlog import MAGIC_ROLL, TimerMetrics
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutResult, PutStatus

from .already_done import origin_of
from .clock import Clock
from .delivered_message import DueMessage, due_message
from .timer_counts import TimerCounts
from .timer_options import TimerOptions
from .timer_record import TimerRecordError
from .timer_request import DeliverBatch, ReadMark
from .timer_state import TimerState

log = structlog.get_logger("timermq.pipeline.dequeue_put_message")

STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
"""The message is in the log: putting it again would double it."""

HOPELESS = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Putting the same message again can only be refused again."""


@attrs.frozen(eq=False, kw_only=True)
class DequeuePutMessage:
    """The stage; ``run`` is its task."""

    store: MessageStore
    metrics: TimerMetrics
    state: TimerState
    options: TimerOptions
    clock: Clock
    counts: TimerCounts

    async def run(self, source: trio.MemoryReceiveChannel[DeliverBatch | ReadMark]) -> None:
        """Deliver every batch until ``source`` ends.

        Cancellation: a message is in the log with its origin or it is not; ``commit_read_ms`` moves
        only when all messages of the slots before it are.
        """
        async with source:
            async for batch in source:
                if isinstance(batch, ReadMark):
                    self._mark(batch)
                else:
                    await self._deliver(batch)

    def _mark(self, mark: ReadMark) -> None:
        state = self.state
        state.commit_read_ms = mark.read_ms
        state.already_done.forget(slot_ms=mark.read_ms, queue_offset=state.commit_queue_offset)
        # While deliveries of the process before still count, the next one must read them too.
        if not state.already_done:
            state.scan_py = self.store.commit_log.max_offset
        state.published.set()
        # Delivered slots are what a full ring waits for.
        state.slot_closed.set()

    async def _deliver(self, batch: DeliverBatch) -> None:
        due = self._convert(batch)
        await self._gate(due)
        while due:
            now_ms = self.clock.now_ms()
            results = self.store.put([one.message for one in due], even_when_full=True)
            if STORED.issuperset([result.status for result in results]):
                self._account(due, now_ms)
                due = []
            else:
                due = self._account_some(due, results, now_ms)
            if due:
                self.counts.retried += len(due)
                await trio.sleep(self.options.retry_interval_ms / 1000)
            else:
                await trio.lowlevel.checkpoint()

    def _convert(self, batch: DeliverBatch) -> list[DueMessage]:
        due: list[DueMessage] = []
        rows = zip(
            batch.records,
            batch.requests["offset_py"].tolist(),
            ((batch.requests["magic"] & MAGIC_ROLL) != 0).tolist(),
            strict=True,
        )
        precision_ms = self.options.timer_precision_ms
        for record, offset_py, is_roll in rows:
            try:
                due.append(
                    due_message(
                        record,
                        offset_py,
                        is_roll=is_roll,
                        origin=origin_of(offset_py),
                        precision_ms=precision_ms,
                    )
                )
            except TimerRecordError as error:
                self.counts.set_aside += 1
                log.error("due message set aside", phy_offset=offset_py, reason=str(error))
        return due

    async def _gate(self, due: list[DueMessage]) -> None:
        """NOT_BEFORE: wait until the wall clock has reached the last moment of the batch."""
        latest_ms = max((one.deliver_ms for one in due), default=0)
        while (now_ms := self.clock.now_ms()) < latest_ms:
            wait_ms = min(latest_ms - now_ms, self.options.clock_check_interval_ms)
            await trio.sleep(wait_ms / 1000)

    def _account_some(
        self, due: list[DueMessage], results: list[PutResult], now_ms: int
    ) -> list[DueMessage]:
        """Count those that are stored; returns those to be put again."""
        pairs = list(zip(due, results, strict=True))
        self._account([one for one, result in pairs if result.status in STORED], now_ms)
        return [one for one, result in pairs if self._again(one, result)]

    def _again(self, one: DueMessage, result: PutResult) -> bool:
        if result.status in STORED:
            return False
        if result.status in HOPELESS:
            self.counts.set_aside += 1
            log.error(
                "due message set aside",
                phy_offset=origin_of(one.message.prepared_offset),
                reason=f"{result.status.name}: {result.remark}",
            )
            return False
        return True

    def _account(self, stored: list[DueMessage], now_ms: int) -> None:
        """Count what is stored; by the wall clock, since store times never go back with it."""
        fired = [one for one in stored if not one.is_roll]
        self.counts.rolled += len(stored) - len(fired)
        if fired:
            for topic, count in Counter([one.message.topic for one in fired]).items():
                self.metrics.add(topic, -count)
            self.counts.count_lateness(
                now_ms - np.array([one.deliver_ms for one in fired], np.int64)
            )
