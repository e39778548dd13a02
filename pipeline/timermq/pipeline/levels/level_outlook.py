"""The outlook for the messages that wait for classic levels in a stopped store.

It is decided as a take-over decides (``level_takeover``): what the log shows as done is left out,
what the wheel cannot take is quarantined, and the rest moves to the wheel.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore

from ..admission.admission import Refusal, TimerAdmission
from ..cancel.pending_listing import PendingTimer
from ..records.timer_record import TimerRecordError
from ..state.timer_options import TimerOptions
from .level_offsets import LevelDone, has_begun, scan_start
from .level_queues import Entries, LevelQueues
from .level_record import left_message, moment_of

READ_COUNT = 1024
"""Entries that are read together."""


@attrs.frozen(kw_only=True)
class LevelOutlook:
    """One message that the offsets show as waiting; with neither message nor fault it is done."""

    level: int
    phy_offset: int
    """Its position in the commit log."""
    size: int
    """Bytes of its record."""
    deliver_ms: int = 0
    """When it is due if it moves, epoch milliseconds."""
    delay_ms: int = 0
    """How long that is after it was stored."""
    message: Message | None = None
    """The timer that it becomes if it moves."""
    fault: str | None = None
    """Why it goes to the quarantine."""

    def pending(self) -> PendingTimer | None:
        """The row of a listing; None if it does not move."""
        message = self.message
        if message is None:
            return None
        return PendingTimer.of(
            message.properties,
            topic=message.topic,
            queue_id=message.queue_id,
            deliver_ms=self.deliver_ms,
            phy_offset=self.phy_offset,
        )


@attrs.frozen(eq=False)
class LeftLevels:
    """The messages that the offsets show as waiting, and what was done behind the offsets."""

    store: MessageStore
    queues: LevelQueues
    done: LevelDone

    @classmethod
    def of(cls, store: MessageStore) -> LeftLevels:
        """Look at a store.

        Args:
            store: Open, read only or not. If anything waits, the log is read from where something
                may have been done behind the offsets.
        """
        known = DelayOffsets.load(store.disk, store.root)
        queues = LevelQueues(store, {} if known is None else known.offsets)
        done = LevelDone(has_begun(known))
        if queues.left:
            for _ in done.look(
                store, scan_start(store, queues, known), store.commit_log.max_offset
            ):
                pass
        return cls(store, queues, done)

    def entries(self, count_max: int) -> Iterator[Entries]:
        """All that waits, so many at a time, those that are due first in front; once."""
        while self.queues.left:
            entries = self.queues.due_first(count_max)
            yield entries
            self.queues.pass_by(entries)

    def outlooks(self, options: TimerOptions) -> Iterator[LevelOutlook]:
        """Look at each message that waits, and read its record; in the same order, once."""
        admission = TimerAdmission(options, lambda _: False)
        for entries in self.entries(READ_COUNT):
            yield from _looked_at(self.store, admission, entries, self.done)


def level_outlooks(store: MessageStore, options: TimerOptions) -> Iterator[LevelOutlook]:
    """Look at each message that waits, those that are due first in front.

    Args:
        store: Open, read only or not. The log is read from where something may have been done
            behind the offsets, and every record that waits.
        options: The slots that the messages move to.
    """
    return LeftLevels.of(store).outlooks(options)


def _looked_at(
    store: MessageStore, admission: TimerAdmission, entries: Entries, done: LevelDone
) -> Iterator[LevelOutlook]:
    moments, levels, positions, sizes = (
        entries[name].tolist() for name in ("moment_ms", "level", "offset_py", "size_py")
    )
    records = store.commit_log.records_at(zip(positions, sizes, strict=True))
    for moment_ms, level, offset_py, size_py, record, was_moved in zip(
        moments, levels, positions, sizes, records, done.were_moved(entries).tolist(), strict=True
    ):
        outlook = LevelOutlook(level=level, phy_offset=offset_py, size=size_py)
        if was_moved:
            yield outlook
            continue
        try:
            message = left_message(record, offset_py, size_py)
        except TimerRecordError as error:
            yield attrs.evolve(outlook, fault=str(error))
            continue
        assert record is not None
        if done.was_delivered(record):
            yield outlook
            continue
        deliver_ms = moment_of(moment_ms, record)
        try:
            done.check_doubts(offset_py, deliver_ms, message.topic)
        except TimerRecordError as error:
            yield attrs.evolve(outlook, fault=str(error))
            continue
        admitted = admission.take_over(message, deliver_ms)
        if isinstance(admitted, Refusal):
            yield attrs.evolve(outlook, fault=admitted.remark)
            continue
        yield attrs.evolve(
            outlook,
            deliver_ms=deliver_ms,
            delay_ms=deliver_ms - store_ms_of(record),
            message=message,
        )
