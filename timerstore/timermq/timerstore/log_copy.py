"""A copy of another broker's log: its bytes as they are, at the positions that they have there.

Whole records alone come to the log: what has come of the next one waits in memory, and a copy that
is cut off anywhere goes on at the end of the log. Each record must name the position at which it
stands, so no other log can follow by mistake. Its queue unit is made of it, as a start does.

Source: Java ``DefaultHAClient.dispatchReadRequest``, ``CommitLog.appendData``,
``DefaultMessageStore.ReputMessageService``.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable

import attrs
import numpy as np
import structlog
from numpy.typing import NDArray

from .commit_log import CommitLog, LogWrite
from .consume_queue import ConsumeQueue, QueueUnits
from .consume_queue_table import ConsumeQueueTable
from .copied_run import CopiedRun
from .delay_levels import SCHEDULE_TOPIC
from .dispatch import DispatchBatch, Dispatcher
from .index_follower import IndexFollower
from .log_record import LogRecord, read_log_record
from .queue_register import QueueRegister
from .record_check import CheckKind, check_record
from .record_layout import BLANK, BLANK_MAGIC, BLANK_SIZE, FIXED_SIZE_V1, MAGIC_V1, MAGIC_V2
from .redispatch import queue_unit
from .run_properties import RunProperties
from .store_writer import StoreWriter
from .topic_queue import queue_refusal

log_lines = structlog.get_logger("timermq.timerstore.log_copy")

_RECORD_MAGICS = (MAGIC_V1, MAGIC_V2)

_SINGLES = 16
"""Records looked at one by one behind a run before another one is looked for."""


class CopyError(Exception):
    """What came cannot stand in the log; nothing of it was taken. Says place, expected, found."""


@attrs.define(eq=False)
class _QueueEnd:
    """The end of a queue, with what waits to come to it."""

    topic: str
    queue: ConsumeQueue
    next_offset: int
    """Queue offset of the next record; the queue may lag behind."""
    first_offset: int = 0
    """Queue offset of the first of ``units``."""
    units: list[bytes] = attrs.field(factory=list[bytes])
    end: int = 0
    """End in the log of the last one's record."""

    def gather(self, units: bytes, count: int, end: int, taken: _Taken) -> None:
        """Take the units of the next records, of which the last ends there."""
        if not self.units:
            self.first_offset = self.next_offset
            taken.ends[self] = None
        self.units.append(units)
        self.end = end
        self.next_offset += count


@attrs.define(eq=False)
class _Taken:
    """Whole records that stand side by side, as far as they were looked at."""

    size: int = 0
    """Bytes of them, blanks included."""
    count: int = 0
    store_ms: int = 0
    """Newest store time."""
    ends: dict[_QueueEnd, None] = attrs.field(factory=dict[_QueueEnd, None])
    """Queues that they belong to."""
    may_be_runs: bool = True
    """No run of them was found to be one that its queues do not go on with."""
    runs: list[CopiedRun] = attrs.field(factory=list[CopiedRun])
    """Those of them that were looked at together."""


class LogCopy:
    """The end of a log to which another one is copied.

    Args:
        log: The log.
        queues: Its queues.
        register: Says which records belong to deleted topics.
        dispatcher: Gets the queue units.
        writer: Told what was copied.
        index: Told of what it need not read; None without an index.
        levels_ms: Delays of the classic levels.
        follow: Called when something was appended.
        delete_topic: Removes the queues of a topic.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        register: QueueRegister,
        *,
        dispatcher: Dispatcher,
        writer: StoreWriter,
        index: IndexFollower | None,
        levels_ms: tuple[int, ...],
        follow: Callable[[], None],
        delete_topic: Callable[[str], Awaitable[None]],
    ) -> None:
        self.copied = 0
        """Records copied so far."""
        self.is_open = False
        """Whether the log is a copy now: it takes bytes."""
        self.damaged = 0
        """Those of them whose body is not the one that was stored."""
        self.on_run: Callable[[RunProperties], None] | None = None
        """Gets the records that were read together, once they are in the log: it need not read them
        again. Others are between them."""
        self._log = log
        self._queues = queues
        self._register = register
        self._dispatcher = dispatcher
        self._writer = writer
        self._index = index
        self._levels_ms = levels_ms
        self._follow = follow
        self._delete_topic = delete_topic
        self._rest = b""
        self._doubted = (-1, 0)
        """Position and checksum of the last record that came damaged."""
        self._ends: dict[tuple[bytes, int], _QueueEnd | None] = {}
        """By topic and queue id; None: its records come to no queue."""

    @property
    def is_empty(self) -> bool:
        """Whether the log holds nothing: the copy may begin with any segment."""
        return not self._log.segments

    @property
    def next_offset(self) -> int:
        """The position whose byte comes next."""
        return self._log.max_offset + len(self._rest)

    def begin(self) -> int:
        """Begin, or go on, with another stream of bytes; the position at which it has to start."""
        self._rest = b""
        return self._log.max_offset

    def forget(self, topic: str | None = None) -> None:
        """Look up the ends of a topic's queues again, or of all: others have changed them."""
        self._ends = {
            key: end
            for key, end in self._ends.items()
            if topic is not None and (end is None or end.topic != topic)
        }

    async def append(self, offset: int, data: bytes) -> int:
        """Take bytes; the records that are whole with them are in the log then, and in queues.

        Args:
            offset: Their position: ``next_offset``; of an empty log the start of any segment.
            data: Within one segment.

        Returns:
            End of the log.

        Raises:
            CopyError: They are not what has to come there; what came before them stays.
            OSError: The disk did not take them; the copy has to begin again.
            StoreFailedError: The store has failed.

        Cancellation: as much is taken as was; the copy has to begin again.
        """
        self._check_place(offset, len(data))
        if self.is_empty and not self._rest and offset:
            self._log.append([offset], [])
        self._rest += data
        while (restarted := self._advance()) is not None:
            log_lines.warning("topic was deleted and begins again", topic=restarted)
            await self._delete_topic(restarted)
        return self._log.max_offset

    def _check_place(self, offset: int, size: int) -> None:
        if not self.is_open:
            raise CopyError("commit log: expected a copy, found a log of its own")
        segment_size = self._log.segment_size
        if self.is_empty and not self._rest:
            if offset % segment_size:
                raise CopyError(
                    f"commit log: expected a segment of {segment_size} bytes to begin with, "
                    f"found position {offset}: its segments have another size"
                )
        elif offset != self.next_offset:
            raise CopyError(f"commit log: expected bytes at {self.next_offset}, found {offset}")
        if offset % segment_size + size > segment_size:
            raise CopyError(
                f"commit log: expected bytes within a segment of {segment_size} bytes, "
                f"found {size} at {offset}: its segments have another size"
            )

    def _advance(self) -> str | None:
        """Bring the whole records to the log; the topic to be removed first, if there is one."""
        taken = _Taken()
        restarted: str | None = None
        fault: CopyError | None = None
        start = self._log.max_offset
        singles = _SINGLES
        try:
            while size := self._whole_size(start + taken.size, taken.size):
                if singles >= _SINGLES and self._take_run(start + taken.size, taken):
                    singles = 0
                    continue
                restarted = self._take(start + taken.size, taken, size)
                if restarted is not None:
                    break
                taken.size += size
                is_segment_start = (start + taken.size) % self._log.segment_size == 0
                singles = _SINGLES if is_segment_start else singles % _SINGLES + 1
        except CopyError as error:
            fault = error
        if taken.size:
            self._write(start, taken)
        if fault is not None:
            raise fault
        return restarted

    def _whole_size(self, phy_offset: int, at: int) -> int:
        """Size of the record or blank at a place of what has come; 0: it is not whole."""
        rest, segment_size = self._rest, self._log.segment_size
        if len(rest) - at < BLANK_SIZE:
            return 0
        size, magic = BLANK.struct.unpack_from(rest, at)
        left = segment_size - phy_offset % segment_size
        if magic == BLANK_MAGIC:
            if size != left:
                raise CopyError(f"blank at {phy_offset}: size: expected {left}, found {size}")
        elif magic not in _RECORD_MAGICS or not FIXED_SIZE_V1 <= size <= left:
            raise CopyError(
                f"commit log at {phy_offset}: expected a record of {FIXED_SIZE_V1} to {left} "
                f"bytes, found magic {magic}, size {size}"
            )
        return size if len(rest) - at >= size else 0

    def _take_run(self, phy_offset: int, taken: _Taken) -> bool:
        """Look at a run of records at once, if one begins here and goes on with all its queues."""
        if not taken.may_be_runs:
            return False
        room = self._log.segment_size - phy_offset % self._log.segment_size
        run = CopiedRun.of(self._rest, taken.size, phy_offset, room)
        if run is None:
            return False
        gathered: list[tuple[_QueueEnd, NDArray[np.intp]]] = []
        for number, target in enumerate(run.targets):
            rows = np.flatnonzero(run.target_of == number)
            offsets = run.queue_offsets[rows]
            end = self._end_of(target, int(offsets[0]), phy_offset)
            if (
                end is None
                or self._register.is_deleted(end.topic, phy_offset)
                or (offsets != end.next_offset + np.arange(len(rows))).any()
            ):
                taken.may_be_runs = False
                return False
            gathered.append((end, rows))
        for end, rows in gathered:
            units = run.units_of(rows, self._levels_ms if end.topic == SCHEDULE_TOPIC else None)
            end.gather(units.tobytes(), len(rows), int(run.ends[rows[-1]]), taken)
        taken.runs.append(run)
        taken.store_ms = max(taken.store_ms, run.store_ms)
        taken.count += len(run)
        taken.size += run.size
        return True

    def _take(self, phy_offset: int, taken: _Taken, size: int) -> str | None:
        """Look at a whole record; its topic, when that has to be removed first."""
        at = taken.size
        data = self._rest[at : at + size]
        if int.from_bytes(data[4:8], signed=True) == BLANK_MAGIC:
            return None
        found = check_record(data, 0, size, phy_offset, check_crc=True)
        if found.kind is not CheckKind.RECORD:
            self._check_head(data, phy_offset, found.reason)
        record = read_log_record(data)
        if record.is_queued:
            target = record.topic, record.queue_id
            end = self._end_of(target, record.queue_offset, phy_offset)
            if end is not None:
                ahead = record.queue_offset - end.next_offset
                if ahead < 0 and record.queue_offset == 0:
                    return end.topic
                self._gather(end, record, phy_offset, size, taken)
        taken.store_ms = max(taken.store_ms, record.store_ms)
        taken.count += 1
        return None

    def _check_head(self, data: bytes, phy_offset: int, reason: str) -> None:
        """Let a record pass whose body alone was damaged before it came: a copy is as its source.

        That it was, and not on its way, shows when it comes again.

        Raises:
            CopyError: It is no record, or may be another one when it comes again.
        """
        found = check_record(data, 0, len(data), phy_offset, check_crc=False)
        doubted, self._doubted = self._doubted, (phy_offset, zlib.crc32(data))
        if found.kind is not CheckKind.RECORD or doubted != self._doubted:
            raise CopyError(f"record at {phy_offset}: {found.reason or reason}")
        self.damaged += 1
        log_lines.error("copied record is damaged", phy_offset=phy_offset, reason=reason)

    def _end_of(
        self, target: tuple[bytes, int], queue_offset: int, phy_offset: int
    ) -> _QueueEnd | None:
        """The end of a queue; None of a topic that can have none.

        Args:
            target: Its topic and queue id.
            queue_offset: Of the record that comes, with which an empty queue begins.
            phy_offset: Where the record stands, for the log.
        """
        if target in self._ends:
            return self._ends[target]
        topic, queue_id = target[0].decode("utf-8", "replace"), target[1]
        refusal = queue_refusal(topic, queue_id)
        end: _QueueEnd | None = None
        if refusal is not None:
            log_lines.warning("copied records are in no queue", phy_offset=phy_offset, why=refusal)
        else:
            queue = self._queues.find_or_create(topic, queue_id)
            end = _QueueEnd(topic, queue, queue.max_offset)
            if queue.is_empty:
                # The log is not copied from its first message on.
                end.next_offset = max(queue_offset, 0)
        self._ends[target] = end
        return end

    def _gather(
        self, end: _QueueEnd, record: LogRecord, phy_offset: int, size: int, taken: _Taken
    ) -> None:
        ahead = record.queue_offset - end.next_offset
        if ahead > 0:
            raise CopyError(
                f"record at {phy_offset}: queue offset: expected {end.next_offset} of "
                f"{end.topic}/{record.queue_id}, found {record.queue_offset}: messages before it "
                "are missing here"
            )
        if ahead < 0 or self._register.is_deleted(end.topic, phy_offset):
            return
        unit = queue_unit(record, end.topic, phy_offset, size, self._levels_ms)
        end.gather(unit, 1, phy_offset + size, taken)

    def _write(self, start: int, taken: _Taken) -> None:
        data, segment_size = self._rest[: taken.size], self._log.segment_size
        starts: list[int] = []
        writes: list[LogWrite] = []
        at = 0
        while at < len(data):
            offset = start + at
            room = segment_size - offset % segment_size
            if self._log.segment_at(offset) is None:
                starts.append(offset)
            writes.append(LogWrite(offset, data[at : at + room]))
            at += room
        try:
            self._log.append(starts, writes)
        except BaseException:
            for one in taken.ends:
                one.next_offset = one.first_offset
                one.units.clear()
            self._rest = b""
            raise
        self._rest = self._rest[taken.size :]
        self.copied += taken.count
        units = [
            QueueUnits(one.queue, one.first_offset, b"".join(one.units), one.end)
            for one in taken.ends
        ]
        for one in taken.ends:
            one.units.clear()
        self._writer.copied(taken.count, len(data), taken.store_ms)
        for run in taken.runs:
            if self._index is not None:
                self._index.offer(run.key_hashes())
            if self.on_run is not None:
                self.on_run(run.properties)
        self._dispatcher.add(DispatchBatch(start + len(data), units))
        self._follow()
