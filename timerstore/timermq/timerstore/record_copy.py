"""Records written again under another topic: how most due timers reach theirs.

Nearly all of a delivered record stands in the waiting one already: checksum, flags, born data, body
and the producer's properties are taken over as slices, without a message in between. That is a
third of what a put costs. Copies take the usual case only (IPv4 hosts, no transaction, a batch that
fits the segment); for anything else the caller makes messages.

Source: Java ``TimerMessageStore.convertMessage`` with ``MessageStore.putMessage``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .consume_queue import UNIT
from .dispatch import unit_tags_code
from .message import HOST_SIZE_V4, SysFlag
from .properties import TAGS_NAME
from .record import BLANK_SIZE
from .record_layout import BODY_AT, HEAD, V6_FLAGS_AT
from .record_writer import EncodedBatch
from .store_options import StoreOptions
from .topic_queue import TopicQueue, TopicQueueTable, queue_refusal

_USUAL = int(SysFlag.COMPRESSED | SysFlag.MULTI_TAGS | SysFlag.NEED_UNWRAP)
"""Bits that the last byte of a copied record's sysFlag may have."""
_TAGS = TAGS_NAME + b"\x01"
_LENGTH_SIZE = 2
"""Bytes of the length before the properties."""

_BORN = ("sys_flag", "born_host")
_READ = HEAD.cut("total_size", "body_crc", "flag", _BORN, "reconsume_times", "body_length")
_WRITE = HEAD.cut(
    "total_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "phy_offset",
    _BORN,
    "store_ms",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_length",
)


@attrs.frozen(eq=False)
class RecordCopies:
    """Records of one topic that are to be written again, as columns."""

    topic_part: bytes
    """Length and name of the topic that all ``records`` have."""
    records: Sequence[bytes]
    """Whole records."""
    ends: Sequence[int]
    """Where, in each record, the properties end that its copy keeps."""
    targets: Sequence[tuple[str, int]]
    """Topic and queue of each copy."""
    origins: Sequence[int]
    """What each copy's preparedTransactionOffset says."""


class RecordCopier:
    """Encodes copies.

    Args:
        options: Levels.
        topic_queues: Next queue offsets; they advance here.
        store_host: Address in every record, packed.
    """

    def __init__(
        self, options: StoreOptions, topic_queues: TopicQueueTable, store_host: bytes
    ) -> None:
        self._topic_queues = topic_queues
        self._store_host = store_host
        self._levels = options.delay_levels_ms

    def encode(
        self, copies: RecordCopies, *, start: int, room: int, store_ms: int
    ) -> EncodedBatch | None:
        """Lay out copies behind the end of the log, all of them or none.

        Args:
            copies: What to write again.
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.

        Returns:
            None when one of them is unusual, or the segment ends within the batch.
        """
        if len(self._store_host) != HOST_SIZE_V4:
            return None
        batch = EncodedBatch(start)
        try:
            is_done = self._lay_out(batch, copies, store_ms)
        except BaseException:
            batch.take_back()
            raise
        if is_done and batch.end + BLANK_SIZE <= start + room:
            return batch
        batch.take_back()
        return None

    def _lay_out(self, batch: EncodedBatch, copies: RecordCopies, store_ms: int) -> bool:
        """The hot loop; False when a record is unusual."""
        find_entry, touched, store_host = self._topic_queues.get, batch.touched, self._store_host
        read, write, pack_unit = _READ.unpack_from, _WRITE.pack, UNIT.struct.pack
        topic_part = copies.topic_part
        skipped = len(topic_part) + _LENGTH_SIZE
        parts: list[bytes] = []
        pos = batch.end
        rows = zip(copies.records, copies.ends, copies.targets, copies.origins, strict=True)
        for record, end, target, origin in rows:
            entry = find_entry(target) or self._new_entry(target)
            kept: tuple[int, int, int, bytes, int, int] = read(record)
            old_size, crc, flag, born, reconsume_times, body_size = kept
            body_end = BODY_AT + body_size
            properties = record[body_end + skipped : end]
            if (
                entry is None
                or old_size != len(record)
                or record[V6_FLAGS_AT] & ~_USUAL
                or not BODY_AT <= body_end <= end
                or not record.startswith(topic_part, body_end)
            ):
                return False
            offset, properties_size = entry.next_offset, len(properties)
            size = body_end + len(entry.topic_part) + _LENGTH_SIZE + properties_size
            head = write(
                size,
                entry.magic,
                crc,
                entry.queue_id,
                flag,
                offset,
                pos,
                born,
                store_ms,
                store_host,
                reconsume_times,
                origin,
                body_size,
            )
            parts += (
                head,
                record[BODY_AT:body_end],
                entry.topic_part,
                properties_size.to_bytes(_LENGTH_SIZE),
                properties,
            )
            code = 0
            if entry.has_levels or _TAGS in properties:
                code = unit_tags_code(properties, entry.has_levels, store_ms, self._levels)
            if not entry.units:
                touched.append(entry)
                entry.first_offset = offset
            entry.units.append(pack_unit(pos, size, code))
            entry.next_offset = offset + 1
            pos += size
            entry.end = pos
        batch.close_write(batch.end, parts)
        batch.end, batch.count = pos, len(copies.records)
        return True

    def _new_entry(self, target: tuple[str, int]) -> TopicQueue | None:
        """The destination, None when nothing can be stored there or its units are unusual."""
        if queue_refusal(*target) is not None:
            return None
        return self._topic_queues.add(*target)
