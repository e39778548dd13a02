"""The hot loop of a put: messages become the bytes of log records and of consume queue units.

Everything here is arithmetic and bytes; nothing is written. What the loop decides (positions,
queue offsets, where segments end) is carried out by `CommitLog.append` and, if that fails, taken
back whole.

Cost: about 2 us for a message of 128 bytes in batches of 16 or more. Parts are joined once per
write; a larger join than 256 KiB would make the allocator map and unmap memory each time.
"""

import struct
from collections.abc import Callable, Sequence
from zlib import crc32

import attrs

from .commit_log import LogWrite
from .consume_queue import QueueUnits
from .dispatch import DispatchBatch, unit_tags_code
from .index_keys import Fresh, FreshRecords
from .message import HOST_SIZE_V4, HOST_SIZE_V6, TRANSACTION_MASK, Message, SysFlag
from .properties import INNER_NUM, PROPERTIES_SIZE_MAX
from .put_status import PutResult, PutStatus
from .queue_unit import UNIT
from .record import BLANK_SIZE, blank_record, host_flags
from .record_layout import BODY_CRC_MASK, HEADS, V6_BITS
from .store_options import StoreOptions
from .topic_queue import TopicQueue, TopicQueueTable, queue_refusal

WRITE_COUNT_MAX = 256
"""Most records in one write."""

WRITE_SIZE_MAX = 256 << 10
"""Bytes after which a write is closed; only a single larger record makes a larger one."""

RECORD_OVERHEAD_MAX = 65_536
"""Bytes that a record may have beyond the largest body."""

_LENGTH_SIZE = 2
"""Bytes of the length before the properties."""


# Plain integers: the operators of an IntFlag cost half a microsecond each.
_INNER_BATCH = int(SysFlag.INNER_BATCH)
_NOT_V6 = ~V6_BITS
_UNQUEUED = (int(SysFlag.TRANSACTION_PREPARED), int(SysFlag.TRANSACTION_ROLLBACK))

_Head = tuple[Callable[..., bytes], int, int]
"""How to pack what stands before the body, its size, and the bits for its hosts."""


@attrs.define(eq=False)
class EncodedBatch:
    """A batch of messages as bytes and positions."""

    end: int
    """End of the log after the batch."""
    results: list[PutResult] = attrs.field(factory=list[PutResult])
    """One for each message, in their order; true once the writes are done."""
    count: int = 0
    """Messages that are stored."""
    fresh: Fresh | None = None
    """For the index; None when it has to read them."""
    segment_starts: list[int] = attrs.field(factory=list[int])
    """Segments that have to be begun."""
    writes: list[LogWrite] = attrs.field(factory=list[LogWrite])
    touched: list[TopicQueue] = attrs.field(factory=list[TopicQueue])
    """Destinations that get units."""

    def close_write(self, offset: int, parts: list[bytes]) -> None:
        """Make ``parts`` one write, and empty it."""
        if parts:
            self.writes.append(LogWrite(offset, b"".join(parts)))
            parts.clear()

    def dispatch(self) -> DispatchBatch:
        """The units of the batch, taken from its destinations."""
        units = [
            QueueUnits(entry.queue, entry.first_offset, b"".join(entry.units), entry.end)
            for entry in self.touched
        ]
        for entry in self.touched:
            entry.units.clear()
        return DispatchBatch(self.end, units)

    def take_back(self) -> None:
        """Give the queue offsets back: the batch was not written."""
        for entry in self.touched:
            entry.next_offset = entry.first_offset
            entry.units.clear()


class RecordWriter:
    """Encodes batches of messages.

    Args:
        options: Limits and levels.
        topic_queues: Next queue offsets; they advance here.
        store_host: Address in every record, packed: 8 bytes for IPv4, 20 for IPv6.
    """

    def __init__(
        self, options: StoreOptions, topic_queues: TopicQueueTable, store_host: bytes
    ) -> None:
        self._topic_queues = topic_queues
        self._store_host = store_host
        self._segment_size = options.mapped_file_size_commit_log
        size_max = self._segment_size - BLANK_SIZE
        record_size_max = min(options.max_message_size + RECORD_OVERHEAD_MAX, size_max)
        self._limits = ((options.max_message_size, record_size_max), (size_max, size_max))
        """Largest body and record: of new messages, and of those that were taken before."""
        self.body_size_max, self.record_size_max = self._limits[False]
        """Of new messages, bytes."""
        self._levels = options.delay_levels_ms
        self._heads: dict[int, _Head] = {}
        """By the size of the born host."""
        for size in (HOST_SIZE_V4, HOST_SIZE_V6):
            flags = host_flags(0, bytes(size), store_host)
            self._heads[size] = (HEADS[flags].pack, HEADS[flags].size, flags)

    def encode(
        self,
        messages: Sequence[Message],
        *,
        start: int,
        room: int,
        store_ms: int,
        were_taken: bool = False,
    ) -> EncodedBatch:
        """Lay out a batch behind the end of the log.

        A message that may not be stored is refused in its result and does not stop the others.

        Args:
            messages: What to store.
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.
            were_taken: The store holds the messages already: whatever fits a segment is taken, also
                beyond a limit that was lowered since.

        Source: CommitLog.asyncPutMessage, MessageExtEncoder.encode, DefaultAppendMessageCallback.
        """
        batch = EncodedBatch(start)
        try:
            self._lay_out(batch, messages, start + room, store_ms, self._limits[were_taken])
        except BaseException:
            # A message that is none (a body of None, say): queue offsets must not be lost.
            batch.take_back()
            raise
        return batch

    def _lay_out(
        self,
        batch: EncodedBatch,
        messages: Sequence[Message],
        segment_end: int,
        store_ms: int,
        limits: tuple[int, int],
    ) -> None:
        """The hot loop. Long, because each call out of it would cost a tenth of its time."""
        find_entry, results, touched = self._topic_queues.get, batch.results, batch.touched
        heads, store_host, levels = self._heads, self._store_host, self._levels
        body_size_max, record_size_max = limits
        put_ok, pack_unit = PutStatus.PUT_OK, UNIT.struct.pack
        # Looked for once in all of them: a tenth of the time.
        may_be_inner = INNER_NUM in b"".join([message.properties for message in messages])
        parts: list[bytes] = []
        pos = write_start = batch.end
        stored = write_first = 0
        all_queued = True
        for message in messages:
            entry = find_entry((message.topic, message.queue_id)) or self._new_entry(message)
            head = heads.get(len(message.born_host))
            body, properties, sys_flag = message.body, message.properties, message.sys_flag
            body_size, properties_size = len(body), len(properties)
            if (
                entry is None
                or head is None
                or body_size > body_size_max
                or properties_size > PROPERTIES_SIZE_MAX
                or sys_flag & _INNER_BATCH
                or (may_be_inner and INNER_NUM in properties)
            ):
                results.append(self._refuse(message, limits))
                continue
            pack_head, head_size, host_bits = head
            topic_part = entry.topic_part
            size = head_size + body_size + len(topic_part) + _LENGTH_SIZE + properties_size
            if size > record_size_max:
                results.append(self._refuse(message, limits))
                continue
            if pos + size + BLANK_SIZE > segment_end:
                if pos < segment_end:
                    parts.append(blank_record(segment_end - pos))
                batch.close_write(write_start, parts)
                pos = write_start = segment_end
                segment_end += self._segment_size
                batch.segment_starts.append(pos)
                write_first = stored
            elif (
                stored - write_first >= WRITE_COUNT_MAX or pos + size - write_start > WRITE_SIZE_MAX
            ):
                batch.close_write(write_start, parts)
                write_start, write_first = pos, stored
            is_queued = sys_flag & TRANSACTION_MASK not in _UNQUEUED
            queue_offset = entry.next_offset if is_queued else 0
            crc = message.body_crc
            try:
                head_bytes = pack_head(
                    size,
                    entry.magic,
                    crc32(body) & BODY_CRC_MASK if crc is None else crc,
                    entry.queue_id,
                    message.flag,
                    queue_offset,
                    pos,
                    sys_flag & _NOT_V6 | host_bits,
                    message.born_ms,
                    message.born_host,
                    store_ms,
                    store_host,
                    message.reconsume_times,
                    message.prepared_offset,
                    body_size,
                )
            except struct.error as error:
                results.append(PutResult(PutStatus.MESSAGE_ILLEGAL, remark=f"message: {error}"))
                continue
            parts += (
                head_bytes,
                body,
                topic_part,
                properties_size.to_bytes(_LENGTH_SIZE),
                properties,
            )
            results.append(PutResult(put_ok, pos, size, queue_offset, store_ms))
            stored += 1
            if is_queued:
                if not entry.units:
                    touched.append(entry)
                    entry.first_offset = queue_offset
                code = unit_tags_code(properties, entry.has_levels, store_ms, levels)
                entry.units.append(pack_unit(pos, size, code))
                entry.next_offset = queue_offset + 1
                entry.end = pos + size
            else:
                all_queued = False
            pos += size
        batch.close_write(write_start, parts)
        if stored == len(messages) and all_queued:
            batch.fresh = FreshRecords(
                start=batch.end,
                end=pos,
                store_ms=store_ms,
                topics=[message.topic for message in messages],
                properties=[message.properties for message in messages],
                offsets_py=[result.phy_offset for result in results],
            )
        batch.end, batch.count = pos, stored

    def _new_entry(self, message: Message) -> TopicQueue | None:
        """The destination of a message, None when nothing can be stored there."""
        if queue_refusal(message.topic, message.queue_id) is not None:
            return None
        return self._topic_queues.add(message.topic, message.queue_id)

    def _refuse(self, message: Message, limits: tuple[int, int]) -> PutResult:
        """Say which rule a message breaks.

        Source: HookUtils.checkBeforePutMessage, checkInnerBatch, MessageExtEncoder.encode.
        """
        body_size, properties_size = len(message.body), len(message.properties)
        body_size_max, record_size_max = limits
        status = PutStatus.MESSAGE_ILLEGAL
        remark = queue_refusal(message.topic, message.queue_id)
        if remark is not None:
            pass
        elif properties_size > PROPERTIES_SIZE_MAX:
            status = PutStatus.PROPERTIES_SIZE_EXCEEDED
            remark = (
                f"properties of {properties_size} bytes: expected at most {PROPERTIES_SIZE_MAX}"
            )
        elif body_size > body_size_max:
            remark = f"body of {body_size} bytes: expected at most {body_size_max}"
        elif len(message.born_host) not in self._heads:
            remark = f"born host of {len(message.born_host)} bytes: expected 8 or 20"
        elif message.sys_flag & _INNER_BATCH or INNER_NUM in message.properties:
            remark = "inner batch: expected a topic of batch type"
        else:
            remark = f"record: expected at most {record_size_max} bytes"
        return PutResult(status, remark=remark)
