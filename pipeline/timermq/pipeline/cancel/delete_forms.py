"""Forms of the deletes that wait in a store: which versions of RocketMQ would honour them.

Each version of RocketMQ compares names of one form (``delete_message``), and delivers a message
that only a delete of the other form names. Timermq writes a delete of each form. A single delete
is left by a cancel of timermq 0.1, by a recall that RocketMQ stored, and by a producer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import attrs
import numpy as np

from timermq.timerlog import MAGIC_DELETE, slot_times
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.moved_key import MOVED_MARK
from timermq.timerstore.properties import find
from timermq.timerstore.record import RecordError, record_properties

from ..records.cancel_mark import name_in_delete
from ..records.timer_properties import DELETE_NAME
from ..records.timer_record import TIMER_TOPIC, TimerRecordError, decode_present
from ..records.torn_move import is_torn_move
from ..recovery.timer_files import TimerFiles
from ..recovery.timer_recovery import Recovered
from .pending_deletes import queued_entries


@attrs.frozen
class DeleteForms:
    """How many cancelled messages are named in each form, and in neither."""

    count: int
    """Messages that waiting deletes name, each once."""
    with_topic: int
    """Of these, those whose topic and unique key a delete names."""
    with_key: int
    """Of these, those whose unique key alone a delete names."""


def delete_forms(
    store: MessageStore, files: TimerFiles, recovered: Recovered, precision_ms: int
) -> DeleteForms:
    """Count the forms; reads each delete that a start would still meet.

    Args:
        store: Opened and recovered.
        files: Its timer files, the same.
        recovered: What that recovery found.
        precision_ms: Width of a slot.
    """
    found: dict[tuple[int, bytes], set[bool]] = defaultdict(set)
    for phy_offset, size in _waiting(store, files, recovered):
        record = store.commit_log.record_at(phy_offset, size)
        try:
            facts = decode_present(record, phy_offset, size, precision_ms)
            assert record is not None
            name = find(record_properties(record), DELETE_NAME)
            if not facts.is_delete or name is None or is_torn_move(store, record):
                continue
            target = name_in_delete(record)
        except (TimerRecordError, RecordError):
            continue
        topic = facts.destination.topic.encode() + b"+"
        has_topic = name.startswith(topic)
        forms = found[facts.out_ms, target.replace(topic, b"", 1) if has_topic else target]
        # No record has a key with this end: the delete is to take nothing out of RocketMQ's slot.
        if not name.endswith(MOVED_MARK):
            forms.add(has_topic)
    return DeleteForms(
        count=len(found),
        with_topic=sum(True in forms for forms in found.values()),
        with_key=sum(False in forms for forms in found.values()),
    )


def _waiting(
    store: MessageStore, files: TimerFiles, recovered: Recovered
) -> Iterator[tuple[int, int]]:
    """Position and size of each delete, and of each entry that may be one."""
    done, timer_log = recovered.already_done, files.timer_log
    for _, units in timer_log.scan(timer_log.min_pos):
        offsets = units["offset_py"].astype(np.int64)
        wanted = ((units["magic"] & MAGIC_DELETE) != 0) & ~done.dequeue_repeats(offsets)
        wanted &= slot_times(units) >= recovered.read_ms
        yield from zip(offsets[wanted].tolist(), units["size_py"][wanted].tolist(), strict=True)
    queue = store.queue(TIMER_TOPIC, 0)
    queue_end = 0 if queue is None else queue.max_offset
    for _, phy_offset, size in queued_entries(store, recovered.queue_offset, queue_end, done):
        yield phy_offset, size
