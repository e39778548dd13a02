"""Stage 5: writes due messages to their real topics, and rolled ones back to the timer topic.

This is the last gate before a message can be seen (NOT_BEFORE): a batch is written only when the
wall clock has reached the moment of each of its messages, whatever the stages before believed. What
is not due any more, because the clock was set back, steps aside until it is (``early_messages``).

A message that the store cannot take now (disk full, log failing over) is retried until it can:
only what failed, in order, without limit (``backoff``). A message that the store will never take,
or that no message can be made of, is quarantined (``quarantine``) before anything later is
delivered.

Each record names its origin (ONCE): see ``deduplication``.

Source: Java ``TimerMessageStore.TimerDequeuePutMessageService``, ``convertMessage``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL, TimerMetrics
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import REAL_TOPIC_NAME, find
from timermq.timerstore.put_status import PutResult, PutStatus

from ..clock.clock import Clock
from ..quarantine.quarantine import HOPELESS, Quarantine
from ..records.cancel_mark import cancel_mark
from ..records.deduplication import origin_of
from ..records.delivered_message import DueMessage, due_message
from ..records.timer_record import TimerRecordError
from ..records.undeliverable import Reason, Undeliverable
from ..state.timer_counts import TimerCounts
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .due_columns import DueColumns, due_columns
from .early_messages import EarlyMessages
from .timer_request import DeliverBatch, ReadMark, undeliverable

log = structlog.get_logger("timermq.pipeline.stages.dequeue_put_message")

STORED = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
"""The message is in the log: putting it again would double it."""


@attrs.frozen(eq=False, kw_only=True)
class DequeuePutMessage:
    """The stage; ``run`` is its task."""

    store: MessageStore
    metrics: TimerMetrics
    quarantine: Quarantine
    state: TimerState
    options: TimerOptions
    clock: Clock
    counts: TimerCounts
    early: EarlyMessages = attrs.field(factory=EarlyMessages, init=False)

    async def run(self, source: trio.MemoryReceiveChannel[DeliverBatch | ReadMark]) -> None:
        """Deliver every batch until ``source`` ends.

        Cancellation: a message is in the log with its origin or it is not; ``commit_read_ms`` moves
        only when all messages of the slots before it are.
        """
        with contextlib.suppress(trio.EndOfChannel):
            while True:
                await self._handle(await self._next(source))

    async def _next(
        self, source: trio.MemoryReceiveChannel[DeliverBatch | ReadMark]
    ) -> DeliverBatch | ReadMark | None:
        """The next batch or mark; None: it is time to look at those that stepped aside."""
        if not self.early:
            return await source.receive()
        longest_ms = self.options.clock_check_interval_ms
        wait_ms = min(max(self.early.first_ms() - self.clock.now_ms(), 0), longest_ms)
        with trio.move_on_after(wait_ms / 1000):
            if not self.early.is_full or self.state.stopping:
                return await source.receive()
            await trio.sleep_forever()
        return None

    async def _handle(self, batch: DeliverBatch | ReadMark | None) -> None:
        if isinstance(batch, ReadMark):
            self._take_mark(batch)
            return
        now_ms = self.clock.now_ms()
        if batch is not None and batch.left_out:
            await self._write_cancel_marks(batch.left_out)
        due = batch
        if batch is None or self.early or self.early.are_in(batch, now_ms):
            due = self.early.exchange(batch, now_ms)
        if due is not None:
            await self._deliver(due)
        if batch is not None and batch is not due and batch.undeliverable:
            await self._keep_undeliverable(batch.undeliverable)
        self.state.early_py = self.early.first_py()
        if batch is not None and batch.is_last:
            self.state.under_way.popleft()
            if not self.state.under_way:
                self.state.all_delivered.set()
        mark = self.early.take_mark()
        if mark is not None:
            self._mark(mark)

    def _take_mark(self, mark: ReadMark) -> None:
        """All of the slots before it has come: its rolls are written, what is early steps aside."""
        self.state.rolled_ms = mark.read_ms
        if self.early:
            # From here on deliveries of later slots come before the mark is taken.
            scan_py = self.store.commit_log.max_offset if mark.scan_py is None else mark.scan_py
            self.early.mark = attrs.evolve(mark, scan_py=scan_py)
            self.state.published.set()
        else:
            self._mark(mark)

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
        is_plain = not self.options.leave_timer_properties
        due = due_columns(batch, self.options.timer_precision_ms) if is_plain else None
        if due is None or not await self._put_columns(due):
            await self._put_messages(self._convert(batch), batch)
        if batch.undeliverable:
            await self._keep_undeliverable(batch.undeliverable)

    async def _put_columns(self, due: DueColumns) -> bool:
        """Put a run; False, with nothing done, when the store wants messages one by one."""
        await self._gate(latest_ms := int(due.deliver_ms.max()))
        while not self._are_cancelled(due):
            now_ms = self.clock.now_ms()
            result = self.store.put_copy_columns(due.columns)
            if result is None:
                return False
            if result.status in STORED:
                self._account(due.arrivals, now_ms - due.deliver_ms)
                self.counts.deliver_backoff.over()
                await trio.lowlevel.checkpoint()
                return True
            await self._hold_up(len(due.columns), f"{result.status.name}: {result.remark}")
            await self._gate(latest_ms)
        return False

    async def _put_messages(self, due: list[DueMessage], batch: DeliverBatch) -> None:
        await self._gate(max((one.deliver_ms for one in due), default=0))
        while due := self._without_cancelled(due):
            now_ms = self.clock.now_ms()
            results = self.store.put([one.message for one in due], even_when_full=True)
            pairs = list(zip(due, results, strict=True))
            self._account_messages(
                [one for one, result in pairs if result.status in STORED], now_ms
            )
            due = [one for one, result in pairs if self._again(one, result, batch)]
            if due:
                refusals = (result for _, result in pairs if result.status not in STORED | HOPELESS)
                one = next(refusals)
                await self._hold_up(len(due), f"{one.status.name}: {one.remark}")
                await self._gate(max(one.deliver_ms for one in due))
            else:
                self.counts.deliver_backoff.over()
                await trio.lowlevel.checkpoint()

    async def _write_cancel_marks(self, left_out: list[tuple[int, bytes]]) -> None:
        """Write of each cancelled record that it is done, as soon as the store takes it."""
        now_ms = self.clock.now_ms()
        marks = [cancel_mark(record, offset_py, now_ms) for offset_py, record in left_out]
        while marks:
            results = self.store.put(marks, even_when_full=True)
            refused = [one for one in results if one.status not in STORED]
            if refused:
                text = f"{refused[0].status.name}: {refused[0].remark}"
                await self._hold_up(len(refused), text)
            pairs = zip(marks, results, strict=True)
            marks = [mark for mark, result in pairs if result.status not in STORED]
        self.counts.deliver_backoff.over()
        await trio.lowlevel.checkpoint()

    async def _keep_undeliverable(self, faults: list[Undeliverable]) -> None:
        """Bring what cannot be delivered to the quarantine, as soon as the store takes it."""
        while True:
            self._take_cancelled(faults)
            met = [one.offset_py for one in faults]
            refusal = self.quarantine.add(faults, self.clock.now_ms())
            for offset_py in met[: len(met) - len(faults)]:
                self.state.meet(offset_py)
            if refusal is None:
                self.counts.deliver_backoff.over()
                await trio.lowlevel.checkpoint()
                return
            await self._hold_up(len(faults), refusal)

    def _take_cancelled(self, faults: list[Undeliverable]) -> None:
        """Leave out what was cancelled meanwhile."""
        for one in list(faults):
            if self.state.fresh_cancels.cover(one.offset_py):
                faults.remove(one)
                self.counts.cancelled += 1
                self.state.meet(one.offset_py)
                if one.topic_hash is not None:
                    self.metrics.add_by_hash(one.topic_hash, -1)

    async def _hold_up(self, count: int, error: str) -> None:
        """The store takes nothing just now: say so, and pause."""
        self.counts.retried += count
        backoff = self.counts.deliver_backoff
        backoff.again(count, self.clock.now_ms(), error)
        if backoff.is_news:
            log.warning("due messages wait for the store", count=count, error=error)
        await trio.sleep(backoff.pause_s(self.options.retry_interval_ms))

    def _convert(self, batch: DeliverBatch) -> list[DueMessage]:
        due: list[DueMessage] = []
        rows = zip(
            batch.block.records(),
            batch.requests["offset_py"].tolist(),
            ((batch.requests["magic"] & MAGIC_ROLL) != 0).tolist(),
            strict=True,
        )
        precision_ms = self.options.timer_precision_ms
        taken_ms = self.clock.now_ms() if self.options.leave_timer_properties else None
        for index, (record, offset_py, is_roll) in enumerate(rows):
            try:
                due.append(
                    due_message(
                        record,
                        offset_py,
                        is_roll=is_roll,
                        origin=origin_of(offset_py),
                        precision_ms=precision_ms,
                        taken_ms=taken_ms,
                    )
                )
            except TimerRecordError as error:
                batch.undeliverable.append(undeliverable(error, batch.requests[index], record))
        return due

    async def _gate(self, latest_ms: int) -> None:
        """NOT_BEFORE: wait until the wall clock has reached the last moment of the batch."""
        while (now_ms := self.clock.now_ms()) < latest_ms:
            wait_ms = min(latest_ms - now_ms, self.options.clock_check_interval_ms)
            await trio.sleep(wait_ms / 1000)

    def _are_cancelled(self, due: DueColumns) -> bool:
        """Whether any is, so that they are looked at one by one."""
        cancels = self.state.fresh_cancels
        return bool(cancels) and any(map(cancels.cover, origin_of(due.columns.origins).tolist()))

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
            topic = find(one.message.properties, REAL_TOPIC_NAME) if one.is_roll else None
            self.metrics.add(one.message.topic if topic is None else topic.decode(), -1)
        return kept

    def _again(self, one: DueMessage, result: PutResult, batch: DeliverBatch) -> bool:
        """Whether it is put again; what never will be taken is to be quarantined."""
        if result.status in HOPELESS:
            offset_py = origin_of(one.message.prepared_offset)
            index = int(np.flatnonzero(batch.requests["offset_py"] == offset_py)[0])
            text = f"message for {one.message.topic}: {result.status.name}: {result.remark}"
            error = TimerRecordError(Reason.REFUSED, text)
            fault = undeliverable(error, batch.requests[index], batch.block.records()[index])
            batch.undeliverable.append(fault)
        return result.status not in STORED | HOPELESS

    def _account_messages(self, stored: list[DueMessage], now_ms: int) -> None:
        fired = [one for one in stored if not one.is_roll]
        self.counts.rolled += len(stored) - len(fired)
        if fired:
            deliver_ms = np.array([one.deliver_ms for one in fired], np.int64)
            self._account(Counter([one.message.topic for one in fired]), now_ms - deliver_ms)

    def _account(self, topics: Mapping[str, int], late_ms: NDArray[np.int64]) -> None:
        """Count what has fired; by the wall clock, since store times never go back with it."""
        for topic, count in topics.items():
            self.metrics.add(topic, -count)
        self.counts.count_lateness(late_ms)
