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
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL, TimerMetrics
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.put_status import PutResult, PutStatus

from .already_done import origin_of
from .clock import Clock
from .delivered_message import DueMessage, due_message
from .due_copies import DueCopies, due_copies
from .timer_counts import TimerCounts
from .timer_options import TimerOptions
from .timer_record import REAL_TOPIC, TimerRecordError
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
        state.forget_what_is_done()
        # While deliveries of the process before still count, the next one must read them too.
        if not state.already_done:
            # What was delivered of slots that are still open has to be found again.
            needed = (mark.scan_py, state.fresh_cancels.first_py())
            pins = [one for one in needed if one is not None]
            state.scan_py = max(state.scan_py, min(pins, default=self.store.commit_log.max_offset))
        state.published.set()
        # Delivered slots are what a full ring waits for.
        state.slot_closed.set()

    async def _deliver(self, batch: DeliverBatch) -> None:
        due = due_copies(batch, self.options.timer_precision_ms)
        if due is None or not await self._put_copies(due):
            await self._put_messages(self._convert(batch))

    async def _put_copies(self, due: DueCopies) -> bool:
        """Put a usual batch; False, with nothing done, when the store wants messages."""
        await self._gate(int(due.deliver_ms.max()))
        while not self._are_cancelled(due):
            now_ms = self.clock.now_ms()
            result = self.store.put_copies(due.copies)
            if result is None:
                return False
            if result.status in STORED:
                self._account(due.topics(), now_ms - due.deliver_ms)
                await trio.lowlevel.checkpoint()
                return True
            self.counts.retried += len(due.copies.records)
            await trio.sleep(self.options.retry_interval_ms / 1000)
        return False

    async def _put_messages(self, due: list[DueMessage]) -> None:
        await self._gate(max((one.deliver_ms for one in due), default=0))
        while due := self._without_cancelled(due):
            now_ms = self.clock.now_ms()
            results = self.store.put([one.message for one in due], even_when_full=True)
            pairs = list(zip(due, results, strict=True))
            self._account_messages(
                [one for one, result in pairs if result.status in STORED], now_ms
            )
            due = [one for one, result in pairs if self._again(one, result)]
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
                self.state.meet(offset_py)
                log.error("due message set aside", phy_offset=offset_py, reason=str(error))
        return due

    async def _gate(self, latest_ms: int) -> None:
        """NOT_BEFORE: wait until the wall clock has reached the last moment of the batch."""
        while (now_ms := self.clock.now_ms()) < latest_ms:
            wait_ms = min(latest_ms - now_ms, self.options.clock_check_interval_ms)
            await trio.sleep(wait_ms / 1000)

    def _are_cancelled(self, due: DueCopies) -> bool:
        """Whether any is, so that they are looked at one by one."""
        cancels = self.state.fresh_cancels
        return bool(cancels) and any(map(cancels.cover, map(origin_of, due.copies.origins)))

    def _without_cancelled(self, due: list[DueMessage]) -> list[DueMessage]:
        """The last moment at which a cancel can come: what is left is written without a pause."""
        if not self.state.fresh_cancels:
            return due
        kept: list[DueMessage] = []
        for one in due:
            if not self.state.fresh_cancels.cover(origin_of(one.message.prepared_offset)):
                kept.append(one)
                continue
            self.counts.cancelled += 1
            self.state.meet(origin_of(one.message.prepared_offset))
            topic = find(one.message.properties, REAL_TOPIC[:-1]) if one.is_roll else None
            self.metrics.add(one.message.topic if topic is None else topic.decode(), -1)
        return kept

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

    def _account_messages(self, stored: list[DueMessage], now_ms: int) -> None:
        fired = [one for one in stored if not one.is_roll]
        self.counts.rolled += len(stored) - len(fired)
        if fired:
            deliver_ms = np.array([one.deliver_ms for one in fired], np.int64)
            self._account([one.message.topic for one in fired], now_ms - deliver_ms)

    def _account(self, topics: list[str], late_ms: NDArray[np.int64]) -> None:
        """Count what has fired; by the wall clock, since store times never go back with it."""
        for topic, count in Counter(topics).items():
            self.metrics.add(topic, -count)
        self.counts.count_lateness(late_ms)
