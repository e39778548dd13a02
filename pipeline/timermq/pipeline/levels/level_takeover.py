"""Takes over what a RocketMQ broker left waiting for classic levels: all of it goes to the wheel.

Each message becomes a record of the timer topic, with its moment and with the record that it stood
in as its origin; from then on it waits like any other. Those that are due first go first, in small
batches between which everything else has its turn.

**Once (ONCE).** ``config/delayOffset.json`` says up to where a level was through, up to ten seconds
ago. What was done beyond it stands in the commit log: records that name their origin are ours, and
RocketMQ's deliveries are known by name (``level_record``). That part of the log is read before the
first message moves; until all have moved, the file says where it begins (``scanPy``).

**The way back.** The file follows (``level_offsets``), so that RocketMQ, given the store, goes on
behind what moved; what moved waits on its wheel.

Source: Java ``ScheduleMessageService``.
"""

from __future__ import annotations

import attrs
import numpy as np
import structlog
import trio

from timermq.timerstore.config_file import DataVersion
from timermq.timerstore.delay_offset import PATH, DelayOffsets
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore

from ..admission.admission import Refusal, TimerAdmission
from ..clock.clock import Clock
from ..quarantine.quarantine import HOPELESS, Quarantine
from ..records.deduplication import origin_of
from ..records.timer_record import TimerRecordError
from ..records.undeliverable import Reason, Undeliverable
from ..stages.dequeue_put_message import STORED
from ..state.backoff import Backoff
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .level_offsets import LevelDone, LevelOffsets, has_begun, scan_start
from .level_queues import Entries, LevelQueues
from .level_record import left_message, moment_of

BATCH_COUNT_MAX = 128
"""Messages moved between two turns of everything else: some 5 ms."""
BATCH_SIZE_MAX = 1 << 20
"""… and bytes of their records, but for the first."""
SAVE_COUNT = 4096
"""Messages between two writings of the file, which comes by the clock too: what RocketMQ, started
right after a kill in the middle, may deliver twice."""
log = structlog.get_logger("timermq.pipeline.levels.level_takeover")


@attrs.define(eq=False)
class _Batch:
    """Messages on their way to the timer topic, and those that cannot be moved."""

    places: dict[int, tuple[int, int]] = attrs.field(factory=dict[int, tuple[int, int]])
    """Moment and size by the position of the record."""
    messages: list[Message] = attrs.field(factory=list[Message])
    """For the timer topic."""
    undeliverable: list[Undeliverable] = attrs.field(factory=list[Undeliverable])

    def waiting(self) -> list[int]:
        """Positions of the records that have gone nowhere yet."""
        moving = [origin_of(message.prepared_offset) for message in self.messages]
        return moving + [fault.offset_py for fault in self.undeliverable]

    def quarantine(self, offset_py: int, error: TimerRecordError, record: bytes | None) -> None:
        """Say that an entry is for the quarantine."""
        moment_ms, size_py = self.places[offset_py]
        fault = Undeliverable.of(error, offset_py, size_py, record)
        # A moment before 1970 is the hash of a tag: a record without a level has no moment.
        self.undeliverable.append(attrs.evolve(fault, deliver_ms=max(moment_ms, 0)))


class LevelTakeover:
    """The take-over of one store; ``run`` is its task, over at once where nothing waits.

    Args:
        store: Opened and recovered.
        admission: The entry to the wheel.
        quarantine: For what cannot be delivered.
        state: Told what is due soon.
        options: For the pause on a full disk.
        clock: The wall clock.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        admission: TimerAdmission,
        quarantine: Quarantine,
        state: TimerState,
        options: TimerOptions,
        clock: Clock,
    ) -> None:
        self.backoff = Backoff()
        """Messages that the store does not take now."""
        self._store = store
        self._admission = admission
        self._quarantine = quarantine
        self._state = state
        self._options = options
        self._clock = clock
        known = DelayOffsets.load(store.disk, store.root)
        self._queues = LevelQueues(store, {} if known is None else known.offsets)
        self._scan_py = scan_start(store, self._queues, known)
        self._has_begun = has_begun(known)
        self._offsets = LevelOffsets(
            store=store,
            queues=self._queues,
            version=DataVersion() if known is None else known.data_version,
            scan_py=self._scan_py,
            clock=clock,
        )
        self._scan_end = store.commit_log.max_offset
        self._done: LevelDone | None = None
        self._moved: set[int] = set()
        """Positions of the batch in hand that are done."""

    @property
    def left(self) -> int:
        """Messages that wait in level queues."""
        return self._queues.left

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level that has a queue: offset of the next message, and the queue's end."""
        return {one.level: (one.next_offset, one.queue.max_offset) for one in self._queues.queues}

    def first_py(self) -> int | None:
        """The oldest position of the log that is needed; None when nothing is left."""
        return min(self._queues.heads()["offset_py"].tolist(), default=None)

    async def run(self) -> None:
        """Move what waits, and end.

        Raises:
            StoreFailedError: A sync failed; the store takes no more messages.
            OSError: The disk failed.

        Cancellation: what has moved is in the commit log; the next run finds it there.
        """
        left = self.left
        if not left:
            return
        log.info("taking over messages of classic levels", waiting=left)
        if self._done is None:
            await self._begin_file()
            done = LevelDone(self._has_begun)
            for _ in done.look(self._store, self._scan_py, self._scan_end):
                await trio.lowlevel.checkpoint()
            self._done = done
        while self.left:
            until = self.left - SAVE_COUNT
            while self.left > max(until, 0):
                await self._move(self._queues.due_first(BATCH_COUNT_MAX), self._done)
            await self.save()
        log.info("messages of classic levels taken over", count=left)

    async def keep_offsets(self) -> None:
        """Write the file by the clock, as long as ``run`` has to do. See ``LevelOffsets.run``."""
        await self._offsets.run()

    async def save(self) -> None:
        """Write the file, if anything has moved since. See ``LevelOffsets.save``."""
        await self._offsets.save()

    async def _begin_file(self) -> None:
        """Write where to look for what was done: nothing moves before a start after a crash knows.

        The log may well have room when the file has none: a segment is reserved as a whole.
        """
        self._offsets.changed()
        await self.save()
        while not self._offsets.is_saved:
            await self._hold_up(self.left, f"no room for {PATH}")
            await self.save()
        self.backoff.over()

    # -- moving -------------------------------------------------------------------------------

    async def _move(self, entries: Entries, done: LevelDone) -> None:
        """Move the next messages: returns when each is on the timer topic, or quarantined."""
        ends = np.cumsum(entries["size_py"])
        entries = entries[: max(int(np.searchsorted(ends, BATCH_SIZE_MAX, "right")), 1)]
        batch = self._read(entries, done)
        while batch.messages or batch.undeliverable:
            refusal = self._put(batch) if batch.messages else None
            if refusal is None:
                refusal = self._quarantine.add(batch.undeliverable, self._clock.now_ms())
            if refusal is not None:
                entries = self._pass_by(entries, batch)
                await self._hold_up(len(batch.messages) + len(batch.undeliverable), refusal)
        self.backoff.over()
        self._pass_by(entries, batch)
        self._moved.clear()
        await trio.lowlevel.checkpoint()

    def _read(self, entries: Entries, done: LevelDone) -> _Batch:
        """Sort out entries: what is done, what moves, what no message can be made of."""
        batch = _Batch()
        moments, positions, sizes = (
            entries[name].tolist() for name in ("moment_ms", "offset_py", "size_py")
        )
        records = self._store.commit_log.records_at(zip(positions, sizes, strict=True))
        for moment_ms, offset_py, size_py, record, was_moved in zip(
            moments, positions, sizes, records, done.were_moved(entries).tolist(), strict=True
        ):
            if was_moved or offset_py in self._moved:
                continue
            batch.places[offset_py] = moment_ms, size_py
            try:
                message = left_message(record, offset_py, size_py)
                assert record is not None
                if done.was_delivered(record):
                    self._moved.add(offset_py)
                    continue
                deliver_ms = moment_of(moment_ms, record)
                done.check_doubts(offset_py, deliver_ms, message.topic)
                admitted = self._admission.take_over(message, deliver_ms)
                if isinstance(admitted, Refusal):
                    raise TimerRecordError(Reason.REFUSED, admitted.remark)
                self._state.expect(admitted.deliver_ms or 0, self._clock.now_ms())
                batch.messages.append(admitted.message)
            except TimerRecordError as error:
                batch.quarantine(offset_py, error, record)
        return batch

    def _pass_by(self, entries: Entries, batch: _Batch) -> Entries:
        """Take as done, of each level, what stands in front of the first that waits; the others."""
        is_left = np.isin(entries["offset_py"], batch.waiting())
        for level in np.unique(entries["level"][is_left]):
            is_level = entries["level"] == level
            is_left |= np.logical_or.accumulate(is_left & is_level) & is_level
        self._queues.pass_by(entries[~is_left])
        self._offsets.changed()
        return entries[is_left]

    def _put(self, batch: _Batch) -> str | None:
        """Store the messages of a batch; those that need another try are left in it.

        Returns:
            None when none is left; else why the store does not take it now.
        """
        messages, batch.messages = batch.messages, []
        refusal: str | None = None
        for message, result in zip(
            messages, self._store.put(messages, even_when_full=True), strict=True
        ):
            offset_py = origin_of(message.prepared_offset)
            if result.status in STORED:
                self._moved.add(offset_py)
                continue
            text = f"{result.status.name}: {result.remark}"
            if result.status in HOPELESS:
                record = self._store.commit_log.record_at(offset_py, batch.places[offset_py][1])
                batch.quarantine(offset_py, TimerRecordError(Reason.REFUSED, text), record)
            else:
                batch.messages.append(message)
                refusal = text
        return refusal

    async def _hold_up(self, count: int, error: str) -> None:
        """The store takes nothing just now: say so, and pause."""
        self.backoff.again(count, self._clock.now_ms(), error)
        if self.backoff.is_news:
            log.warning("messages of levels wait for the store", count=count, error=error)
        await trio.sleep(self.backoff.pause_s(self._options.retry_interval_ms))
