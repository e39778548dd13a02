"""Queues that cannot be taken as their files have them: the records of the log decide.

A queue is made again from the start of the log when

- a file of it is damaged: missing between others, of another length, not to be read;
- units stand behind its end that no power cut can have left, see ``unit_scan``;
- after a kill, its newest unit shows no record and none that is damaged, although all units up to
  there were durable, or points behind the log;
- a record near the end of what was durable has no unit that shows it.

A record whose queue shows it under another number is itself damaged, and says nothing here. Before
anything is changed the log is read once for the queues that are to be made again. A unit whose
record is damaged is kept: the log does not tell of it, and the queue offsets behind it must stay
what they are. Where the unit is gone as well its place is kept (``lost_places``). Where nothing in
the log is damaged, and neither tells what stood at a queue offset before others, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .commit_log import CommitLog
from .consume_queue import ConsumeQueue
from .consume_queue_table import QueueKey
from .delay_levels import SCHEDULE_TOPIC
from .errors import StoreFormatError
from .log_holes import Hole
from .log_reading import LogReading
from .log_record import LogRecord, read_log_record
from .lost_places import LostPlaces
from .lost_records import LostRecords, PlacedUnit
from .queue_unit import LOST_SIZE, UNIT
from .record_check import CheckKind
from .redispatch import queue_unit
from .store_files import StoreFiles
from .topic_queue import queue_refusal
from .unit_blocks import UnitBlocks

COMPARED_SIZE = 16 << 20
"""Bytes of the log before what was durable whose records are compared with their units: some 50,000
records, a fraction of a second."""

TAGS_CODE_AT = UNIT.offset_of("tags_code")

BLOCK_COUNT = 128
"""Units of a queue that are read together."""

LMQ_PREFIX = "%LMQ%"
"""Light queues of RocketMQ: their units point to records of other topics."""


def shows_record(log: CommitLog, queue: ConsumeQueue, offset: int) -> bool:
    """Whether the unit of a queue offset points to the record that states this place."""
    units = queue.units(offset, 1)
    if not len(units):
        return False
    phy_offset, size, _ = units[0].tolist()
    found = log.check_at(phy_offset, check_crc=False) if size > 0 <= phy_offset else None
    if found is None or found.kind is not CheckKind.RECORD or found.size != size:
        return False
    record = read_log_record(log.read(phy_offset, size))
    place = (record.topic, record.queue_id, record.queue_offset)
    return place == (queue.topic.encode(), queue.queue_id, offset)


def ends_falsely(store: StoreFiles, queue: ConsumeQueue) -> bool:
    """Whether the newest unit points to what is no record of its place.

    Where the record is damaged the unit is right: without it the offset would be given out again.
    """
    phy_offset, size, _ = queue.units(queue.max_offset - 1, 1)[0].tolist()
    if shows_record(store.log, queue, queue.max_offset - 1):
        return False
    return not _is_damaged(store, phy_offset, size)


def _is_damaged(store: StoreFiles, phy_offset: int, size: int) -> bool:
    """Whether what stood at a place of the log is damaged, whatever it was."""
    is_unlike_seal = not store.log.old.compare(phy_offset, phy_offset + size)
    return size == LOST_SIZE or is_unlike_seal or _is_hole(store, phy_offset, size)


def _is_hole(store: StoreFiles, phy_offset: int, size: int) -> bool:
    """Whether a place of the log has no part of any record, though records stand around it."""
    log, end = store.log, phy_offset + size
    if not log.holds(phy_offset, size):
        return False
    before = [
        _shown_position(log, queue, _first_from(queue, phy_offset) - 1) for queue in store.queues
    ]
    first = max((one for one in before if one is not None), default=log.min_offset)
    reading = LogReading(log, first, end=end, purpose="the end of a queue")
    return all(at + len(data) <= phy_offset for at, data in reading)


def _first_from(queue: ConsumeQueue, phy_offset: int) -> int:
    """The first queue offset of a record at a position or behind it."""
    return queue.find_phy_offset(phy_offset, queue.min_offset, queue.max_offset)


def _shown_position(log: CommitLog, queue: ConsumeQueue, offset: int) -> int | None:
    """Position of the record that a unit shows; None if there is none."""
    if not queue.min_offset <= offset < queue.max_offset or not shows_record(log, queue, offset):
        return None
    return int(queue.units(offset, 1)[0]["phy_offset"])


def is_shown_elsewhere(log: CommitLog, queue: ConsumeQueue, offset: int, phy_offset: int) -> bool:
    """Whether a record, not the unit of its queue offset, is wrong.

    Another record of its queue has this place, or the queue shows the record under another number.
    """
    unit = _unit(queue, offset)
    if unit is not None and unit[0] != phy_offset and shows_record(log, queue, offset):
        return True
    at = _first_from(queue, phy_offset)
    shown = _unit(queue, at)
    return at != offset and shown is not None and shown[0] == phy_offset


def _unit(queue: ConsumeQueue, offset: int) -> tuple[int, ...] | None:
    units = queue.units(offset, 1)
    return units[0].tolist() if len(units) else None


@attrs.define(eq=False)
class _Count:
    """The records of one queue, as the log has them."""

    next: int | None = None
    """Queue offset of the next one, None before the first."""
    end: int = 0
    """End of the last one."""
    is_shown: bool = True
    """Whether the units that the queue has for these records are theirs."""

    def is_shown_by(self, max_offset: int) -> bool:
        """Whether a queue that ends at an offset shows these records, and no others behind them."""
        return self.is_shown and self.next is not None and max_offset <= self.next


class QueueCheck:
    """The queues of a store that is being opened.

    Args:
        store: Its parts, opened; nothing is changed.
        durable_py: Where log and queues were durable up to, at least; records from there on are
            brought to the queues anyway.
        end: End of the log.
    """

    def __init__(self, store: StoreFiles, *, durable_py: int, end: int) -> None:
        self._store = store
        self._log = store.log
        self._durable_py = durable_py
        self._end = end
        self._blocks = UnitBlocks(BLOCK_COUNT)
        self._lost = LostPlaces()
        self.skipped: dict[QueueKey, int] = {}
        """Queues of which nothing tells the end, and the queue offset at which they go on."""
        self.kept: list[LostRecords] = []
        """Damaged records of queues that are made again, each with the unit that stays."""
        self.shown: set[QueueKey] = set()
        """Queues to be made again whose readable units are right: only what is behind is not."""

    def run(self) -> dict[QueueKey, int]:
        """Find the queues that are to be made again, each with its next queue offset then.

        Raises:
            StoreFormatError: Neither the log nor such a queue tells what it held.
        """
        killed = not self._store.last_exit_ok
        before_py = self._durable_py if killed else 1 << 62
        doubtful = {
            (queue.topic, queue.queue_id)
            for queue in self._store.queues
            if not queue.topic.startswith(LMQ_PREFIX)
            and (queue.is_doubtful(before_py) or (killed and self._ends_falsely(queue)))
        }
        doubtful |= self._compare()
        return self._next_offsets(doubtful) if doubtful else {}

    def _ends_falsely(self, queue: ConsumeQueue) -> bool:
        end = queue.max_physic_offset
        is_due = self._log.min_offset < end <= self._durable_py or end > self._log.max_offset
        return is_due and ends_falsely(self._store, queue)

    def _compare(self) -> set[QueueKey]:
        """Compare records with units where the walk of a recovery is near anyway."""
        doubtful: set[QueueKey] = set()
        queues = self._store.queues
        for phy_offset, size, record in self._records(self._compared_from(), self._durable_py):
            topic, offset = record.topic.decode("utf-8", "replace"), record.queue_offset
            queue = queues.get(topic, record.queue_id)
            if queue is not None:
                if self._has_unit(queue, record, topic, phy_offset, size):
                    continue
                if is_shown_elsewhere(self._log, queue, offset, phy_offset):
                    continue
            if self._is_of_queue(record, topic, phy_offset):
                doubtful.add((topic, record.queue_id))
        return doubtful

    def _is_shown(self, record: LogRecord, topic: str, phy_offset: int, size: int) -> bool:
        """Whether a queue has the unit of a record, or ends before it."""
        queue, offset = self._store.queues.get(topic, record.queue_id), record.queue_offset
        return queue is not None and (
            offset >= queue.max_offset or self._has_unit(queue, record, topic, phy_offset, size)
        )

    def _has_unit(
        self, queue: ConsumeQueue, record: LogRecord, topic: str, phy_offset: int, size: int
    ) -> bool:
        """Whether a queue shows a record at its place."""
        unit = queue_unit(record, topic, phy_offset, size, self._store.options.delay_levels_ms)
        # A moment of a classic level stays what it was, whatever the level is by now.
        compared = TAGS_CODE_AT if topic == SCHEDULE_TOPIC else UNIT.size
        return unit[:compared] == self._blocks.packed(queue, record.queue_offset)[:compared]

    def _compared_from(self) -> int:
        """A record's position from which on records are compared, as far back as is cheap."""
        log, first = self._log, max(self._durable_py - COMPARED_SIZE, self._log.min_offset)
        if first == log.min_offset:
            return first
        start = first - first % log.segment_size
        starts = [] if start < first else [start]
        for queue in self._store.queues:
            shown = _shown_position(log, queue, _first_from(queue, first))
            starts += [] if shown is None else [shown]
        return min((one for one in starts if one >= first), default=self._durable_py)

    def _records(self, first: int, end: int) -> Iterator[tuple[int, int, LogRecord]]:
        """The records that queues hold, from a record on, up to an end.

        Those that are not as they were written say nothing, and are left out.
        """
        reading = LogReading(self._log, first, end=end, purpose="queues")
        for phy_offset, data, is_sound in self._lost.noted(reading, self._log.old):
            if not is_sound:
                continue
            record = read_log_record(data)
            if record.is_queued and record.queue_offset >= 0:
                yield phy_offset, len(data), record

    def _is_of_queue(self, record: LogRecord, topic: str, phy_offset: int) -> bool:
        is_deleted = self._store.register.is_deleted(topic, phy_offset)
        return not is_deleted and queue_refusal(topic, record.queue_id) is None

    def _next_offsets(self, doubtful: set[QueueKey]) -> dict[QueueKey, int]:
        """Read the log for some queues: whether it holds all that they held.

        What the register and the files know of a queue's end counts where the log has less. Where
        none of them knows it, the queue goes on where its newest file would end: no offset is given
        out twice.
        """
        counts = {key: _Count() for key in doubtful}
        self._lost = LostPlaces()
        for phy_offset, size, record in self._records(self._log.min_offset, self._end):
            topic = record.topic.decode("utf-8", "replace")
            key = (topic, record.queue_id)
            count = counts.get(key)
            if count is not None and self._is_of_queue(record, topic, phy_offset):
                self._keep_before(count, key, record.queue_offset, phy_offset)
                if count.next is None or count.next == record.queue_offset:
                    count.next, count.end = record.queue_offset + 1, phy_offset + size
                    count.is_shown &= self._is_shown(record, topic, phy_offset, size)
        for key, count in counts.items():
            self._keep_units(count, key, self._end)
            queue = self._store.queues.get(*key)
            if queue is not None and not queue.is_empty and count.is_shown_by(queue.max_offset):
                self.shown.add(key)
        known = {(topic, queue_id): end for topic, queue_id, end in self._store.register.queues()}
        return {
            key: max(known.get(key, 0), self._end_by_files(key, is_noted=key in known))
            if count.next is None
            else max(count.next, known.get(key, 0))
            for key, count in counts.items()
        }

    def _end_by_files(self, key: QueueKey, *, is_noted: bool) -> int:
        """Next offset of a queue of which the log has no record; 0: the register says it."""
        queue = self._store.queues.get(*key)
        if queue is None:
            return 0
        if queue.last.is_told:
            return max(queue.max_offset, queue.written_end, 0)
        if is_noted and self._store.last_exit_ok and self._store.checkpoint.durable_py is not None:
            return 0
        self.skipped[key] = queue.written_end
        return queue.written_end

    def _keep_before(self, count: _Count, key: QueueKey, offset: int, phy_offset: int) -> None:
        """Count the damaged records between the last one and the next; raise if there are none."""
        if count.next is None or offset <= count.next:
            return
        self._keep_units(count, key, phy_offset, first_after=offset)
        if offset == count.next:
            return
        if not self._lost.units(count.end, phy_offset, offset - count.next):
            raise StoreFormatError(
                f"{self._store.root}/consumequeue/{key[0]}/{key[1]}",
                count.next * UNIT.size,
                f"a record of the log for unit {count.next}, or damage where it stood, since the "
                "queue is to be made again",
                f"a record for unit {offset}, and nothing damaged before it",
            )
        queue = self._store.queues.get(*key)
        count.is_shown &= queue is not None and count.next >= queue.max_offset
        count.next = offset

    def _keep_units(
        self, count: _Count, key: QueueKey, limit: int, *, first_after: int = 1 << 62
    ) -> None:
        """Keep the next units of a queue, as far as their records are damaged, and count them.

        Args:
            count: The records up to there.
            key: The queue.
            limit: Where the next record of the log that is the queue's stands.
            first_after: The queue offset that it states.
        """
        queue = self._store.queues.get(*key)
        while queue is not None and count.next is not None and count.next < first_after:
            packed = queue.written(count.next)
            if len(packed) < UNIT.size:
                return
            phy_offset, size, _ = UNIT.unpack(packed)
            end = phy_offset + size
            is_placed = size > 0 and count.end <= phy_offset and end <= limit
            if not is_placed or not _is_damaged(self._store, phy_offset, size):
                return
            unit = PlacedUnit(*key, count.next, phy_offset, size, packed)
            # What the log still has from there on is read: the size may be what is damaged.
            hole = Hole(phy_offset, phy_offset, "a damaged record", False)
            self.kept.append(LostRecords(hole, (unit,)))
            count.next, count.end = count.next + 1, end
