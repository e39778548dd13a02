"""What waits for a classic level in a store that nobody serves, as a take-over would move it."""

from __future__ import annotations

from collections.abc import Iterator

from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.message_store import MessageStore

from .level_done import LevelDone, scan_start
from .level_queues import LevelQueues
from .level_record import left_message, moment_of
from .pending import PendingTimer
from .timer_record import TimerRecordError

READ_COUNT = 1024
"""Entries that are read together."""


def pending_levels(store: MessageStore) -> Iterator[PendingTimer]:
    """Each message that will move to the wheel, those that are due first in front.

    What RocketMQ delivered before it was killed is left out, and what cannot be delivered: it would
    be set aside.

    Args:
        store: Opened, read only or not.
    """
    known = DelayOffsets.load(store.disk, store.root)
    queues, done = LevelQueues(store, {} if known is None else known.offsets), LevelDone()
    if not queues.left:
        return
    for _ in done.look(store, scan_start(store, queues, known), store.commit_log.max_offset):
        pass
    while queues.left:
        entries = queues.due_first(READ_COUNT)
        places = list(zip(entries["offset_py"].tolist(), entries["size_py"].tolist(), strict=True))
        records = store.commit_log.records_at(places)
        for (offset_py, size_py), moment_ms, record, was_moved in zip(
            places, entries["moment_ms"].tolist(), records, done.were_moved(entries), strict=True
        ):
            if was_moved:
                continue
            try:
                message = left_message(record, offset_py, size_py)
            except TimerRecordError:
                continue
            assert record is not None
            if not done.was_delivered(record):
                yield PendingTimer.of(
                    message.properties,
                    topic=message.topic,
                    queue_id=message.queue_id,
                    deliver_ms=moment_of(moment_ms, record),
                    phy_offset=offset_py,
                )
        queues.pass_by(entries)
