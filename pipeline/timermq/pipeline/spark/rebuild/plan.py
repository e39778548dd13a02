"""The input of a rebuild, and the timer service's positions after it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

import msgspec

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record_check import CheckKind

from ...records.system_topics import TIMER_TOPIC
from ...state.timer_options import TimerOptions
from ..file_part import FilePart

SPAN_BYTES = 128 << 20
"""Bytes of the log that a task reads, or a little more."""
QUEUES_MAX = 64
"""Queues that are asked where a record begins."""


class RebuildSpan(msgspec.Struct, frozen=True):
    """A part of a segment of the commit log that begins with a record."""

    path: str
    start: int
    low: int
    high: int

    @property
    def part(self) -> FilePart:
        """The bytes of the span, to be read."""
        return FilePart(self.path, self.start, self.low, self.high)


class RebuildPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a task has to know; goes to it as JSON."""

    now_ms: int
    """The present."""
    spans: list[RebuildSpan]
    segment_size: int
    """Of the commit log."""
    log_end: int
    """End of the commit log: records before it count as read."""
    queue_first: int
    """The first entry of the timer topic that is there."""
    queue_end: int
    """Behind the last one."""
    read_ms: int
    """The slot that is read first: what is due before goes there."""
    write_ms: int
    """The slot of the present."""
    ring_end_ms: int
    """Slots from here on have no place in the ring."""
    window_ms: int
    precision_ms: int

    @classmethod
    def of(
        cls, store: MessageStore, read_ms: int, options: TimerOptions, now_ms: int
    ) -> RebuildPlan:
        """Plan the rebuild of an open store.

        Reading goes on where the checkpoint says, but not in the future: a clock that was wrong may
        have written it. Without one it goes on in the present, as the broker does.

        Args:
            store: Open.
            read_ms: The read time in its checkpoint; 0 without one.
            options: Its timers' settings.
            now_ms: The present.
        """
        precision_ms = options.timer_precision_ms
        present_ms = now_ms // precision_ms * precision_ms
        read_ms = min(read_ms or present_ms, present_ms)
        read_ms -= read_ms % precision_ms
        queue = store.queue(TIMER_TOPIC, 0)
        ring_ms = 2 * options.slots_total * precision_ms
        return cls(
            now_ms=now_ms,
            spans=_spans(store.commit_log, _queues(store)),
            segment_size=store.options.mapped_file_size_commit_log,
            log_end=store.commit_log.max_offset,
            queue_first=0 if queue is None else queue.min_offset,
            queue_end=0 if queue is None else queue.max_offset,
            read_ms=read_ms,
            write_ms=present_ms,
            ring_end_ms=read_ms + ring_ms,
            window_ms=options.roll_window_ms,
            precision_ms=precision_ms,
        )

    def text(self) -> str:
        """The plan as an option of a data source."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> RebuildPlan:
        """The plan of an option."""
        return msgspec.json.decode(text, type=cls)


def _queues(store: MessageStore) -> Sequence[ConsumeQueue]:
    """Queues that know where records begin, that of the timers before all others."""
    queues = sorted(store.queues(), key=lambda one: one.topic != TIMER_TOPIC)
    return queues[:QUEUES_MAX]


def _spans(log: CommitLog, queues: Sequence[ConsumeQueue]) -> list[RebuildSpan]:
    found: list[RebuildSpan] = []
    for segment in log.segments:
        low, end = max(segment.start, log.min_offset), min(segment.end, log.max_offset)
        while low < end:
            high = _record_behind(log, queues, low + SPAN_BYTES, end)
            found.append(RebuildSpan(segment.file.path, segment.start, low, high))
            low = high
    return found


def _record_behind(
    log: CommitLog, queues: Sequence[ConsumeQueue], phy_offset: int, end: int
) -> int:
    """The first record from a position on that a queue names; ``end`` when there is none."""
    nearest = end
    for queue in queues if phy_offset < end else ():
        entries = range(queue.min_offset, queue.max_offset)
        at = bisect_left(entries, phy_offset, key=partial(_place, queue))
        if at == len(entries):
            continue
        place = _place(queue, entries[at])
        if not phy_offset <= place < nearest:
            continue
        checked = log.check_at(place, check_crc=False)
        if checked is not None and checked.kind is CheckKind.RECORD:
            nearest = place
    return nearest


def _place(queue: ConsumeQueue, entry: int) -> int:
    units = queue.units(entry, 1)
    return int(units["phy_offset"][0]) if len(units) else -1
