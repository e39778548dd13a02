"""What will fire: the pending timers of a store, slot by slot.

Three places hold them: units of slots that are not read yet; entries of the timer topic that have
no unit yet; and among both the deletes, which take their targets out wherever those wait. All
deletes are read first, so that what is listed is what will arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from timermq.timerlog import MAGIC_DELETE
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties

from .already_done import AlreadyDone, pending_key
from .timer_files import TimerFiles
from .timer_options import TimerOptions
from .timer_record import DELETE, TIMER_TOPIC, TimerRecordError, decode_timer

QUEUE_COUNT = 4096
"""Entries of the timer topic read at a time."""


@attrs.frozen(kw_only=True)
class PendingTimer:
    """One message that waits; the fields are those of ``timermq pending --json``."""

    unique_id: str
    topic: str
    queue_id: int
    deliver_ms: int
    keys: str
    tags: str
    phy_offset: int
    rolls: int


def iter_pending(
    store: MessageStore,
    files: TimerFiles,
    options: TimerOptions,
    *,
    read_ms: int,
    queue_offset: int,
    already_done: AlreadyDone,
) -> Iterator[PendingTimer]:
    """List what waits, in order of slots; within a slot the newest first.

    Args:
        store: Where the records are.
        files: Wheel and timer log, recovered.
        options: Precision.
        read_ms: Slots before it are read.
        queue_offset: Entries of the timer topic from here on may have no unit yet.
        already_done: What the last run had handled beyond its checkpoint.
    """
    deletes: set[bytes] = set()
    for entry in _entries(store, files, read_ms, queue_offset, already_done):
        if entry.may_delete:
            record = store.commit_log.record_at(entry.offset_py, entry.size_py)
            key = None if record is None else find(record_properties(record), DELETE[:-1])
            if key is not None:
                deletes.add(key)
    for entry in _entries(store, files, read_ms, queue_offset, already_done):
        record = store.commit_log.record_at(entry.offset_py, entry.size_py)
        if record is not None and not already_done.foreign.get(pending_key(record), 0):
            row = _row(record, entry.offset_py, options.timer_precision_ms, deletes)
            if row is not None:
                yield row


def _row(
    record: bytes, offset_py: int, precision_ms: int, deletes: set[bytes]
) -> PendingTimer | None:
    try:
        facts = decode_timer(record, offset_py, precision_ms)
    except TimerRecordError:
        return None
    properties = record_properties(record)
    unique_key = find(properties, b"UNIQ_KEY") or b""
    topic = facts.destination.topic
    if facts.is_delete or {unique_key, topic.encode() + b"+" + unique_key} & deletes:
        return None
    return PendingTimer(
        unique_id=unique_key.decode("utf-8", "replace"),
        topic=topic,
        queue_id=facts.destination.queue_id,
        deliver_ms=facts.deliver_ms,
        keys=(find(properties, b"KEYS") or b"").decode("utf-8", "replace"),
        tags=(find(properties, b"TAGS") or b"").decode("utf-8", "replace"),
        phy_offset=offset_py,
        rolls=facts.rolls,
    )


@attrs.frozen
class _Entry:
    offset_py: int
    size_py: int
    may_delete: bool


def _entries(
    store: MessageStore,
    files: TimerFiles,
    read_ms: int,
    queue_offset: int,
    already_done: AlreadyDone,
) -> Iterator[_Entry]:
    """Every unit not read yet, then every entry of the timer topic that has no unit."""
    slot_ms = files.wheel.next_live(read_ms)
    while slot_ms is not None:
        slot = files.wheel.slot(slot_ms)
        if slot is not None:
            for chunk in files.timer_log.walk(slot.last_pos, slot_ms=slot_ms):
                fresh = ~already_done.dequeue_repeats(chunk.offset_py)
                deletes = (chunk.magic & MAGIC_DELETE) != 0
                yield from map(
                    _Entry,
                    chunk.offset_py[fresh].tolist(),
                    chunk.size_py[fresh].tolist(),
                    deletes[fresh].tolist(),
                )
        slot_ms = files.wheel.next_live(slot_ms + 1)
    yield from _queued(store, queue_offset, already_done)


def _queued(store: MessageStore, queue_offset: int, already_done: AlreadyDone) -> Iterator[_Entry]:
    queue = store.queue(TIMER_TOPIC, 0)
    while queue is not None and queue_offset < queue.max_offset:
        queue_offset = max(queue_offset, queue.min_offset)
        units = queue.units(queue_offset, QUEUE_COUNT)
        if not len(units):
            return
        fresh = units[~already_done.enqueue_repeats(units["phy_offset"].astype(np.int64))]
        for offset_py, size_py in zip(
            fresh["phy_offset"].tolist(), fresh["size"].tolist(), strict=True
        ):
            yield _Entry(offset_py, size_py, may_delete=True)
        queue_offset += len(units)
