"""Reading through a consume queue: messages by offset, as a pull gets them, and by store time."""

from collections.abc import Callable

import attrs
import numpy as np
import structlog

from .array_types import Places
from .commit_log import CommitLog
from .consume_queue import ConsumeQueue
from .get_result import GetResult, GetStatus
from .log_record import STORE_MS_END, store_ms_of
from .queue_unit import LOST_SIZE, UNIT
from .record_block import joined_runs
from .record_check import CheckKind, check_record
from .store_options import StoreOptions

log = structlog.get_logger("timermq.timerstore.queue_reader")

COLUMNS_COUNT_MIN = 64
"""Units of a read that are looked at together; fewer take less time one by one."""

FILTERED_RECORDS_MAX = 128
"""Records that one read looks into with a filter: a millisecond or two. RocketMQ reads 800."""

TagsFilter = Callable[[int], bool]
"""Says from a unit's tags code whether a message may match."""

RecordFilter = Callable[[bytes], bool]
"""Says from a record whether a message matches."""


@attrs.define
class _Batch:
    """The records gathered by one read: runs of neighbours, and how much."""

    runs: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    """(position, size) of each run in the commit log."""
    count: int = 0
    size: int = 0

    def add(self, phy_offset: int, size: int) -> None:
        begin, run_size = self.runs[-1] if self.runs else (-1, 0)
        if begin + run_size == phy_offset:
            self.runs[-1] = (begin, run_size + size)
        else:
            self.runs.append((phy_offset, size))
        self.count += 1
        self.size += size


class QueueReader:
    """Reads records through a consume queue, within RocketMQ's limits.

    Recent records (near the log's end, so in the page cache) may be read in larger batches than old
    ones. The first record that matches is returned whatever its size.

    Source: DefaultMessageStore.getMessage, isTheBatchFull.
    """

    def __init__(self, log: CommitLog, options: StoreOptions) -> None:
        self._log = log
        self._options = options
        self._memory_size = (
            options.physical_memory_size * options.access_message_in_memory_max_ratio // 100
        )

    def read(
        self,
        queue: ConsumeQueue,
        offset: int,
        *,
        count_max: int,
        bytes_max: int,
        matches: TagsFilter | None,
        matches_record: RecordFilter | None,
        is_enough: Callable[[], bool],
    ) -> GetResult:
        """Read matching records from a queue offset on; see `MessageStore.get`."""
        status, next_offset = _position(queue, offset)
        if status is not GetStatus.FOUND:
            return _result(queue, status, next_offset)
        is_filtered = matches is not None or matches_record is not None
        if not is_filtered:
            found = self._read_all(queue, offset, count_max, bytes_max)
            if found is not None:
                return found
        scan_count = max(self._options.max_filter_message_size // UNIT.size, count_max)
        if matches_record is not None:
            scan_count = min(scan_count, FILTERED_RECORDS_MAX)
        batch = _Batch()
        status = GetStatus.NO_MATCHED_MESSAGE
        skip_to = 0
        for phy_offset, size, tags_code in queue.units(offset, scan_count).tolist():
            if batch.count and self._is_full(batch, phy_offset, size, count_max, bytes_max):
                break
            next_offset += 1
            if phy_offset < skip_to or (matches is not None and not matches(tags_code)):
                continue
            if not self._log.holds(phy_offset, size):
                # Its whole segment is gone or going; units of the same segment need no look.
                skip_to = self._log.next_segment_start(phy_offset)
                if not batch.count:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if not self._is_sound(queue, next_offset - 1, phy_offset, size):
                continue
            if matches_record is not None:
                if next_offset - 1 > offset and is_enough():
                    next_offset -= 1
                    break
                record = self._log.record_at(phy_offset, size)
                if record is None or not matches_record(record):
                    continue
            batch.add(phy_offset, size)
        if batch.count:
            status = GetStatus.FOUND
        return _result(queue, status, next_offset, self._records(batch), batch.count)

    def _read_all(
        self, queue: ConsumeQueue, offset: int, count_max: int, bytes_max: int
    ) -> GetResult | None:
        """Read without a filter: only runs of neighbouring records are looked at.

        None when some of the records are gone or damaged: then each unit has to be looked at.
        """
        units = queue.units(offset, count_max)
        if not len(units):
            return None
        positions, sizes = units["phy_offset"], units["size"]
        first = int(positions[0])
        limits = self._limits(first, count_max, bytes_max)
        if len(units) < COLUMNS_COUNT_MIN:
            runs, count = _runs(positions.tolist(), sizes.tolist(), *limits)
        else:
            count = _fitting(sizes, *limits)
            runs = joined_runs(positions[:count], sizes[:count])
        last = int(positions[count - 1])
        is_recent = count == 1 or limits == self._limits(last, count_max, bytes_max)
        commit_log = self._log
        if not is_recent or first < commit_log.min_offset or sum(runs[-1]) > commit_log.max_offset:
            return None
        old = commit_log.old
        is_old = min(runs)[0] < old.end
        if is_old and (
            bool((sizes[:count] == LOST_SIZE).any())
            or not all(old.compare(begin, begin + size) for begin, size in runs)
        ):
            return None
        records = tuple(run for run in commit_log.records_at(runs) if run is not None)
        if len(records) < len(runs):
            return None
        if is_old and not all(old.is_proved(begin, begin + size) for begin, size in runs):
            (doubted,) = np.nonzero(positions[:count] < old.end)
            if not all(map(self._is_record, positions[doubted].tolist(), sizes[doubted].tolist())):
                return None
        return _result(queue, GetStatus.FOUND, offset + count, records, count)

    def _is_sound(self, queue: ConsumeQueue, offset: int, phy_offset: int, size: int) -> bool:
        """Whether a record is as it was written; one that is not is passed over, and told."""
        old, end = self._log.old, phy_offset + size
        if (
            size != LOST_SIZE
            and old.compare(phy_offset, end)
            and (old.is_proved(phy_offset, end) or self._is_record(phy_offset, size))
        ):
            return True
        log.error(
            "damaged message passed over: store repair puts an empty one in its place",
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            phy_offset=phy_offset,
        )
        return False

    def _is_record(self, phy_offset: int, size: int) -> bool:
        """Whether a record has the size of its unit, and its checksum.

        Lengths that lead to another end would have a client take the bytes of one record for the
        head of the next.
        """
        data = self._log.record_at(phy_offset, size)
        if data is None:
            return False
        found = check_record(data, 0, size, phy_offset, check_crc=True)
        return found.kind is CheckKind.RECORD and found.size == size

    def store_ms_at(self, queue: ConsumeQueue | None, offset: int) -> int:
        """Store time of the message at a queue offset, -1 when it is not there."""
        if queue is None or not len(units := queue.units(offset, 1)):
            return -1
        phy_offset, size = int(units["phy_offset"][0]), int(units["size"][0])
        head = self._log.record_at(phy_offset, min(size, STORE_MS_END))
        return -1 if head is None else store_ms_of(head)

    def offset_by_time(self, queue: ConsumeQueue | None, time_ms: int, *, upper: bool) -> int:
        """Find the queue offset that belongs to a store time, by binary search; 0 without a queue.

        Store times never decrease along a queue. With stored times 10, 20, 20, 30 (offsets 0 to 3):

        =========  ======  ======
        time       lower   upper
        =========  ======  ======
        5          0       0
        10         0       0
        15         1       0
        20         1       2
        35         4       3
        =========  ======  ======

        Args:
            queue: The queue.
            time_ms: Store time looked for.
            upper: Of several fitting messages the last one, and of two neighbours the earlier one;
                otherwise the first and the later one.

        Returns:
            An offset in [min_offset, max_offset].

        Source: ConsumeQueue.getOffsetInQueueByTime(timestamp, boundaryType).
        """
        if queue is None:
            return 0
        first, end = queue.min_offset, queue.max_offset
        while first < end:
            middle = (first + end) // 2
            store_ms = self.store_ms_at(queue, middle)
            if store_ms < time_ms or (upper and store_ms == time_ms):
                first = middle + 1
            else:
                end = middle
        return max(first - 1, queue.min_offset) if upper else first

    def _is_full(
        self, batch: _Batch, phy_offset: int, size: int, count_max: int, bytes_max: int
    ) -> bool:
        count_limit, bytes_limit = self._limits(phy_offset, count_max, bytes_max)
        return batch.count >= count_limit or batch.size + size > bytes_limit

    def _limits(self, phy_offset: int, count_max: int, bytes_max: int) -> tuple[int, int]:
        """Records and bytes that one read may give where the record at a position is one of it."""
        options = self._options
        if self._log.max_offset - phy_offset > self._memory_size:
            return (
                min(count_max, options.max_transfer_count_on_message_in_disk),
                min(bytes_max, options.max_transfer_bytes_on_message_in_disk),
            )
        return (
            min(count_max, options.max_transfer_count_on_message_in_memory),
            min(bytes_max, options.max_transfer_bytes_on_message_in_memory),
        )

    def _records(self, batch: _Batch) -> tuple[bytes, ...]:
        return tuple(self._log.read(phy_offset, size) for phy_offset, size in batch.runs)


def _runs(
    positions: list[int], sizes: list[int], count_limit: int, bytes_limit: int
) -> tuple[list[tuple[int, int]], int]:
    """Of few units, those that fit: their records, neighbours joined, and how many they are."""
    runs: list[tuple[int, int]] = []
    begin = end = positions[0]
    count = total = 0
    for phy_offset, size in zip(positions, sizes, strict=True):
        total += size
        if count and (count == count_limit or total > bytes_limit):
            break
        if phy_offset != end:
            runs.append((begin, end - begin))
            begin = phy_offset
        end = phy_offset + size
        count += 1
    runs.append((begin, end - begin))
    return runs, count


def _fitting(sizes: Places, count_limit: int, bytes_limit: int) -> int:
    """Of many units, how many fit; the first always does."""
    fitting = int(np.searchsorted(np.cumsum(sizes), bytes_limit, "right"))
    return max(min(fitting, count_limit), 1)


def _position(queue: ConsumeQueue, offset: int) -> tuple[GetStatus, int]:
    """Whether there is something at the offset, and where to read."""
    if queue.max_offset == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < queue.min_offset:
        return GetStatus.OFFSET_TOO_SMALL, queue.min_offset
    if offset == queue.max_offset:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > queue.max_offset:
        return GetStatus.OFFSET_OVERFLOW_BADLY, queue.max_offset
    return GetStatus.FOUND, offset


def _result(
    queue: ConsumeQueue,
    status: GetStatus,
    next_offset: int,
    records: tuple[bytes, ...] = (),
    count: int = 0,
) -> GetResult:
    return GetResult(
        status=status,
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        records=records,
        count=count,
    )
