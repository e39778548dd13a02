"""Making queue units again from the records of the log.

Corresponds to CommitLogDispatcherBuildConsumeQueue as RocketMQ's recovery uses it. In addition
queues that cannot be continued, because units in between are missing, are found and made from the
log's start.
"""

from collections.abc import Callable, Iterator, Sequence, Set

import attrs

from .commit_log import CommitLog
from .consume_queue import ConsumeQueue
from .consume_queue_table import ConsumeQueueTable, QueueKey
from .delay_levels import SCHEDULE_TOPIC
from .dispatch import unit_tags_code
from .log_reading import LogReading
from .log_record import LogRecord, read_log_record
from .lost_places import LostPlaces
from .lost_records import LostRecords, PlacedUnit
from .queue_unit import UNIT
from .topic_queue import queue_refusal

GATHER_COUNT = 4096
"""Units that are gathered before they are written."""

NOTES_MAX = 100
"""Records passed over that are told one by one."""


def queue_unit(
    record: LogRecord, topic: str, phy_offset: int, size: int, levels_ms: tuple[int, ...]
) -> bytes:
    """The unit that shows a record of the log."""
    code = unit_tags_code(record.properties, topic == SCHEDULE_TOPIC, record.store_ms, levels_ms)
    return UNIT.pack(phy_offset, size, code)


@attrs.define(eq=False)
class _Units:
    """Neighbouring units of one queue."""

    first_offset: int
    units: list[bytes]
    end: int


class Redispatch:
    """Brings records of the log to the queues that do not have them.

    Args:
        log: The log, its end set.
        queues: The queues, nothing in them beyond the log's end.
        levels_ms: Delays of the classic levels.
        is_deleted: Whether a record of a topic at a position belongs to a deleted topic.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        *,
        levels_ms: tuple[int, ...],
        is_deleted: Callable[[str, int], bool],
    ) -> None:
        self.count = 0
        """Records brought to queues."""
        self.incomplete: set[QueueKey] = set()
        """Queues that could not be continued: their units before a record are missing."""
        self.notes: list[str] = []
        self._log = log
        self._queues = queues
        self._levels_ms = levels_ms
        self._is_deleted = is_deleted
        self._gathered: dict[ConsumeQueue, _Units] = {}
        self._gathered_count = 0
        self._lost = LostPlaces()

    def run(
        self,
        first: int,
        *,
        only: Set[QueueKey] | None = None,
        lost: Sequence[LostRecords] = (),
    ) -> None:
        """Walk from a record to the end of the log.

        Args:
            first: Position of a record; when ``only`` is not given the log was just scanned from
                there.
            only: Queues to serve; all when not given.
            lost: Records of damaged parts of the log behind ``first``, whose units stay as they
                were.

        Raises:
            QueueGapError: Units are missing whose records should be in the log.
            StoreFormatError: The log has changed since it was scanned.
        """
        is_whole_log = first <= self._log.min_offset
        self._log.places.unasked = frozenset(only or ())
        self._lost = LostPlaces()
        for one in lost:
            self._run(first, one.hole.position, only, is_whole_log)
            for unit in one.units:
                self._keep(unit, only, is_whole_log)
            self._lost.note(one.hole.position, one.hole.end)
            first = max(first, one.hole.end)
        self._run(first, self._log.max_offset, only, is_whole_log)
        self._write()
        self._log.places.unasked = frozenset()

    def _run(self, first: int, end: int, only: Set[QueueKey] | None, is_whole_log: bool) -> None:
        for phy_offset, data in self._records(first, end, is_scanned=only is None):
            size, record = len(data), read_log_record(data)
            if not record.is_queued:
                continue
            topic = record.topic.decode("utf-8", "replace")
            key = (topic, record.queue_id)
            if only is not None and key not in only:
                continue
            refusal = self._refusal(record, topic, phy_offset)
            if refusal is not None:
                if len(self.notes) < NOTES_MAX:
                    self.notes.append(f"record at {phy_offset} is in no queue: {refusal}")
                continue
            unit = queue_unit(record, topic, phy_offset, size, self._levels_ms)
            self._place(
                PlacedUnit(topic, record.queue_id, record.queue_offset, phy_offset, size, unit),
                is_whole_log,
            )

    def _records(self, first: int, end: int, *, is_scanned: bool) -> Iterator[tuple[int, bytes]]:
        """Position and bytes of each record; one that was not scanned may be behind damage."""
        if not is_scanned:
            reading = LogReading(self._log, first, end=end, purpose="queues made again")
            for phy_offset, data, _ in self._lost.noted(reading, self._log.old):
                yield phy_offset, data
            return
        for phy_offset, size in self._log.walk(first, end):
            yield phy_offset, self._log.read(phy_offset, size)

    def _keep(self, unit: PlacedUnit, only: Set[QueueKey] | None, is_whole_log: bool) -> None:
        if only is None or (unit.topic, unit.queue_id) in only:
            self._place(unit, is_whole_log)

    def _place(self, unit: PlacedUnit, is_whole_log: bool) -> None:
        """Bring a unit to its queue, unless that has it, or lacks what is before."""
        queue = self._queues.find_or_create(unit.topic, unit.queue_id)
        ahead = unit.queue_offset - self._next_offset(queue)
        # Where an empty queue begins the log knows best: its files may be what is left of it.
        is_unknown = queue.is_empty and queue not in self._gathered
        if not is_whole_log and (ahead > 0 or (is_unknown and ahead)):
            self.incomplete.add((unit.topic, unit.queue_id))
        elif ahead >= 0 or is_unknown:
            if ahead > 0 and not is_unknown:
                self._fill(queue, unit.queue_offset, unit.phy_offset)
            self._gather(queue, unit)

    def fill(self, queue: ConsumeQueue, end: int) -> None:
        """Let a queue of which the log's last records are lost end where it did.

        Args:
            queue: A queue that the last ``run`` brought records to.
            end: Queue offset behind its last record, as it is known from elsewhere.
        """
        self._fill(queue, end, self._log.max_offset)
        self._write()

    def _fill(self, queue: ConsumeQueue, end: int, phy_end: int) -> None:
        """Keep the places of lost records up to a queue offset, as far as damage tells of them."""
        gathered, next_offset = self._gathered.get(queue), self._next_offset(queue)
        first = queue.max_physic_offset if gathered is None else gathered.end
        for packed in self._lost.units(first, phy_end, end - next_offset):
            phy_offset, size, _ = UNIT.unpack(packed)
            unit = PlacedUnit(
                queue.topic, queue.queue_id, self._next_offset(queue), phy_offset, size, packed
            )
            self._gather(queue, unit)

    def _refusal(self, record: LogRecord, topic: str, phy_offset: int) -> str | None:
        if record.queue_offset < 0:
            return f"queue offset {record.queue_offset}"
        if self._is_deleted(topic, phy_offset):
            return f"topic {topic} was deleted"
        return queue_refusal(topic, record.queue_id)

    def _next_offset(self, queue: ConsumeQueue) -> int:
        gathered = self._gathered.get(queue)
        if gathered is None:
            return queue.max_offset
        return gathered.first_offset + len(gathered.units)

    def _gather(self, queue: ConsumeQueue, unit: PlacedUnit) -> None:
        if self._next_offset(queue) < unit.queue_offset:
            # A gap: what comes before is written first; the queue says whether it may begin here.
            self._write()
        gathered = self._gathered.get(queue)
        if gathered is None:
            gathered = self._gathered[queue] = _Units(unit.queue_offset, [], 0)
        gathered.units.append(unit.packed)
        gathered.end = unit.end
        self.count += 1
        self._gathered_count += 1
        if self._gathered_count >= GATHER_COUNT:
            self._write()

    def _write(self) -> None:
        for queue, gathered in self._gathered.items():
            queue.append(gathered.first_offset, b"".join(gathered.units), gathered.end)
            self._queues.mark_dirty(queue)
        self._gathered.clear()
        self._gathered_count = 0
