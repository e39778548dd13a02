"""The start of the next record behind damage in the commit log.

That something looks like a whole record is no proof: the body of a message may hold one, with its
own position and a right checksum. While the record around it is sound it is not read. Where its
head is damaged, these tell where it ends, in this order:

- its size, if the head is as its seal says, or if the lengths inside add up to it;
- its size as the unit of a queue says it, if behind it stands a record, a blank, what another unit
  shows, or nothing.

Where none of them does, reading goes on at the next place at which a unit shows a record and a good
one stands. What no unit shows, but looks like a record, is one only if there is a reason that no
unit shows it: its queue is lost, or it is behind all that queues show. There a body can be taken
for a record, and nothing can tell. A queue is lost if the list of queues has it (where there is
one, see ``queue_register``), and there are no units.

The units of the timer log and the entries of the index are not asked: each of them is of a record
that a queue shows too.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Set
from functools import cached_property
from typing import NamedTuple

import attrs

from .consume_queue import ConsumeQueue
from .consume_queue_table import ConsumeQueueTable, QueueKey
from .log_holes import is_zero, look_at
from .queue_register import QueueRegister
from .queue_unit import FILLER_SIZE, LOST_SIZE, UNIT
from .record_check import CheckKind, check_record
from .record_layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    FIXED_SIZE_V1,
    MAGIC_AT,
    MAGIC_V1,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from .record_spans import record_spans

WINDOW_SIZE = 64 << 10
"""Bytes of the log whose units are read at first; each time they are not enough, twice as many."""
WINDOW_SIZE_MAX = 16 << 20
UNIT_COUNT = 64
"""Units of a queue that are read together."""

_MAGIC_START = MAGIC_V1.to_bytes(4, signed=True)[:3]
"""The bytes with which both versions of a record's magic begin."""
_BLANK_MARK = BLANK_MAGIC.to_bytes(4, signed=True)


@attrs.frozen
class LogPart:
    """The readable part of a segment; places in it are counted from the start of the view."""

    view: mmap.mmap | bytes
    limit: int
    """End of it."""
    start: int
    """Position of the view in the log."""
    is_whole: bool
    """It ends with its segment, so that a blank can be judged."""

    def has_record(self, at: int) -> bool:
        """Whether a good record, or the blank, stands at a place."""
        return not look_at(self.view, at, self.limit, self.start, is_whole=self.is_whole)[0]

    def stated_size(self, at: int) -> int:
        """The size that a record states, if the lengths inside add up to it; 0 otherwise."""
        found = check_record(self.view, at, self.limit, self.start + at, check_crc=False)
        return found.size if found.kind is CheckKind.RECORD else 0

    def is_unwritten(self, at: int) -> bool:
        """Whether nothing was written at a place."""
        return not any(self.view[at : min(at + BLANK_SIZE, self.limit)])


class RecordPlaces:
    """The known places of records, for readers behind damage.

    Args:
        queues: Gives the queues of the store, when they are needed; None where there are none.
        register: The list of the queues that there were; None where there is none.
        sealed_size: The size that the record at a position states, if its seal says that it is as
            it was written; 0 otherwise.
    """

    def __init__(
        self,
        queues: Callable[[], ConsumeQueueTable | None] = lambda: None,
        register: QueueRegister | None = None,
        sealed_size: Callable[[int], int] = lambda _: 0,
    ) -> None:
        self.unasked: Set[QueueKey] = frozenset()
        """Queues that are being made again: they tell nothing yet."""
        self._queues = queues
        self._register = register
        self._sealed_size = sealed_size
        self._sizes: dict[int, int] = {}
        """Position of a damaged record to its size: its queue may be made again, and tell it only
        then when the log has been read."""

    def allow(self, position: int, size: int) -> bool:
        """Whether a damaged record can have this size: unless a unit shows another one.

        A body may be made so that it has the same checksum with another length.

        Raises:
            OSError: The disk failed.
        """
        return self.size_at(position) in (0, size)

    def size_at(self, position: int) -> int:
        """Size of the record at a position, as a unit shows it; 0 where none does.

        Raises:
            OSError: The disk failed.
        """
        return self._size(self._shown(), position)

    def forget(self, end: int) -> None:
        """The log ends there: what stood behind is no more."""
        self._sizes = {at: size for at, size in self._sizes.items() if at < end}

    def behind(self, part: LogPart, at: int) -> int | None:
        """The next place to read behind a damaged record: a good one, or the blank.

        Args:
            part: The rest of the segment.
            at: Where the damaged record begins.

        Returns:
            None where nothing follows in this part.

        Raises:
            OSError: The disk failed.
        """
        shown = self._shown()
        end = self._known_end(part, shown, at)
        if end > at and (end == part.limit or part.has_record(end)):
            return None if end == part.limit else end
        size = self._size(shown, part.start + end)
        # A unit that nothing bears out may be wrong: what other units show counts before it.
        covered = end + size if size <= part.limit - end else end
        return self._next(part, shown, max(end, at + 1), covered)

    def next_from(self, part: LogPart, first: int) -> int | None:
        """The same, from a place on at which no record is known to begin.

        Raises:
            OSError: The disk failed.
        """
        return self._next(part, self._shown(), first, first)

    def _shown(self) -> _Shown:
        return _Shown(self._queues(), self.unasked, self._register)

    def _size(self, shown: _Shown, position: int) -> int:
        size = shown.size_at(position) or self._sizes.get(position, 0)
        if size:
            self._sizes[position] = size
        return size

    def _known_end(self, part: LogPart, shown: _Shown, at: int) -> int:
        """Behind all damaged records from ``at`` on whose sizes are known."""
        while at < part.limit:
            size = part.stated_size(at) or self._sealed_size(part.start + at)
            if not size:
                size = self._size(shown, part.start + at)
                if not self._leads_on(part, shown, at + size):
                    return at
            if not FIXED_SIZE_V1 <= size <= part.limit - at:
                return at
            at += size
            if at == part.limit or part.has_record(at):
                return at
        return at

    def _leads_on(self, part: LogPart, shown: _Shown, end: int) -> bool:
        """Whether a record can have ended at a place, by what stands there."""
        return end <= part.limit and (
            end == part.limit
            or part.is_unwritten(end)
            or part.has_record(end)
            or self._size(shown, part.start + end) > 0
        )

    def _next(self, part: LogPart, shown: _Shown, first: int, covered: int) -> int | None:
        """The next good record that counts, or the blank.

        Args:
            part: The rest of the segment.
            shown: Its units.
            first: Where to look from.
            covered: Where to look from for what no unit shows.
        """
        if is_zero(part.view, first, part.limit):
            return None
        covered = max(covered, first)
        for position, size in shown.between(part.start + first, part.start + part.limit):
            at = position - part.start
            before = attrs.evolve(part, limit=at, is_whole=False)
            unshown = next(_looking_good(before, covered, shown), None)
            if unshown is not None:
                return unshown
            if part.has_record(at):
                return at
            covered = max(covered, at + size if size <= part.limit - at else at + 1)
        found = next(_looking_good(part, covered, shown), None)
        return _blank_from(part, covered) if found is None else found


class _Place(NamedTuple):
    """Which place in a queue a record states."""

    topic: str
    queue_id: int
    queue_offset: int


class _Shown:
    """The records that the queues show, read window by window: for one search."""

    def __init__(
        self,
        queues: ConsumeQueueTable | None,
        unasked: Set[QueueKey],
        register: QueueRegister | None,
    ) -> None:
        asked = {(one.topic, one.queue_id): one for one in queues or () if not one.is_empty}
        self._queues = {key: queue for key, queue in asked.items() if key not in unasked}
        self._register = register
        self._low = self._high = 0
        self._size = WINDOW_SIZE
        self._places: dict[int, int] = {}
        """Position and size of those in the window, in order."""

    def size_at(self, position: int) -> int:
        """Size of the record at a position; 0 where none is shown."""
        if self._queues and not self._low <= position < self._high:
            self._read(position)
        return self._places.get(position, 0)

    def between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Position and size of each record in [first, end)."""
        while self._queues and first < end:
            if not self._low <= first < self._high:
                self._read(first)
            low, first = first, self._high
            for position, size in tuple(self._places.items()):
                if low <= position < end:
                    yield position, size

    def allow(self, place: _Place, position: int) -> bool:
        """Whether a record may be the one of its place that no unit shows, or is shown."""
        key = (place.topic, place.queue_id)
        queue = self._queues.get(key)
        if queue is None:
            return not self._listed or key in self._listed
        if place.queue_offset >= queue.max_offset:
            return position >= self._end
        return [one[0] for one in queue.units(place.queue_offset, 1).tolist()] == [position]

    @cached_property
    def _listed(self) -> Set[QueueKey]:
        """Queues that there were; none where that is not known, as of RocketMQ's stores."""
        listed = () if self._register is None else self._register.queues()
        return {(topic, queue_id) for topic, queue_id, _ in listed}

    @cached_property
    def _end(self) -> int:
        """End of the newest record that any queue shows: all before it are in theirs."""
        return max(queue.max_physic_offset for queue in self._queues.values())

    def _read(self, low: int) -> None:
        self._low, self._high = low, low + self._size
        self._size = min(2 * self._size, WINDOW_SIZE_MAX)
        queues = self._queues.values()
        found = [place for queue in queues for place in _places(queue, low, self._high)]
        self._places = dict(sorted(found))


def _places(queue: ConsumeQueue, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Position and size of the records in [first, end) of the log that a queue shows."""
    offset = queue.find_phy_offset(first, queue.min_offset, queue.max_offset)
    while packed := queue.packed(offset, UNIT_COUNT):
        for position, size, _ in UNIT.struct.iter_unpack(packed):
            if position >= end:
                return
            if position >= first and LOST_SIZE < size < FILLER_SIZE:
                yield position, size
        offset += len(packed) // UNIT.size


def _looking_good(part: LogPart, first: int, shown: _Shown) -> Iterator[int]:
    """The next place, from a place on, that looks like a record, and may be one."""
    at = first
    while (found := part.view.find(_MAGIC_START, at + MAGIC_AT, part.limit)) >= 0:
        at = found - MAGIC_AT
        place = _place_stated(part, at)
        # Asked first: to compare the checksums of many large bodies takes long.
        if place is not None and shown.allow(place, part.start + at) and part.has_record(at):
            yield at
        at += 1


def _place_stated(part: LogPart, at: int) -> _Place | None:
    """The place that a record whose lengths add up states; None where none stands."""
    size = part.stated_size(at)
    if not size:
        return None
    _, topic_at, topic_end, _ = record_spans(part.view, at, at + size)
    topic = part.view[topic_at:topic_end].decode("utf-8", "replace")
    return _Place(
        topic,
        int.from_bytes(part.view[at + QUEUE_ID_AT : at + QUEUE_ID_AT + 4], signed=True),
        int.from_bytes(part.view[at + QUEUE_OFFSET_AT : at + QUEUE_OFFSET_AT + 8], signed=True),
    )


def _blank_from(part: LogPart, first: int) -> int | None:
    """The place of the segment's blank, from a place on."""
    at = first
    while part.is_whole and (found := part.view.find(_BLANK_MARK, at + MAGIC_AT)) >= 0:
        at = found - MAGIC_AT
        if int.from_bytes(part.view[at : at + MAGIC_AT]) == part.limit - at:
            return at
        at += 1
    return None
