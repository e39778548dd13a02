"""A run of messages as columns: what differs among them; what they have in common stands once.

A busy producer's messages differ in queue, body and time, and in their properties only in numbers
and keys. So they are stored together, without an object for each.
"""

from __future__ import annotations

from zlib import crc32

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Rows
from .byte_columns import Pieces, distinct, rows_like
from .message import COMPRESSION_MASK, HOST_SIZE_V4, Message, SysFlag
from .properties import INNER_NUM, PROPERTIES_SIZE_MAX
from .record_columns import RecordColumns, entries_of
from .record_layout import BODY_AT, BODY_CRC_MASK, HEAD, RECORD_HEAD
from .record_writer import EncodedBatch
from .topic_queue import TopicQueueTable

_RUN_FLAGS = int(SysFlag.COMPRESSED | SysFlag.MULTI_TAGS) | COMPRESSION_MASK


@attrs.frozen(eq=False, kw_only=True)
class MessageColumns:
    """A run of messages: the same but for what is a column here; at least one."""

    first: Message
    """The first of them."""
    queue_ids: NDArray[np.int64]
    bodies: Pieces
    properties: Rows
    """Property texts: the same names in the same places, with values of the same sizes."""
    born_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.queue_ids)

    def messages(self) -> list[Message]:
        """The messages one by one, in their order in the columns."""
        first = self.first
        rows = zip(
            self.queue_ids.tolist(),
            self.bodies.each(),
            Pieces.of_rows(self.properties).each(),
            self.born_ms.tolist(),
            strict=True,
        )
        return [
            Message(
                first.topic,
                queue_id,
                body,
                properties,
                first.flag,
                first.sys_flag,
                born_ms,
                first.born_host,
                first.reconsume_times,
                first.prepared_offset,
            )
            for queue_id, body, properties, born_ms in rows
        ]


@attrs.frozen(eq=False)
class StoredColumns:
    """The places of a run's messages after the append."""

    phy_offsets: NDArray[np.int64]
    """Positions of their records in the commit log."""
    queue_offsets: NDArray[np.int64]
    """Ordinals in their queues."""


class MessageColumnsWriter:
    """Encodes runs of messages.

    Args:
        topic_queues: Next queue offsets; they advance here.
        store_host: Address in every record, packed.
        body_size_max: Bytes of a body.
        record_size_max: Bytes of a record.
    """

    def __init__(
        self,
        topic_queues: TopicQueueTable,
        store_host: bytes,
        *,
        body_size_max: int,
        record_size_max: int,
    ) -> None:
        self._topic_queues = topic_queues
        self._store_host = store_host
        self._body_size_max = body_size_max
        self._record_size_max = record_size_max

    def encode(
        self, columns: MessageColumns, *, start: int, room: int, store_ms: int
    ) -> tuple[EncodedBatch, StoredColumns] | None:
        """Lay out messages behind the end of the log, all of them or none.

        Args:
            columns: The messages.
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.

        Returns:
            None when they are to be put one by one: ``RecordWriter`` may refuse some, or the
            segment ends within the batch.
        """
        first = columns.first
        queue_ids, queue_of = distinct(columns.queue_ids)
        targets = [(first.topic, queue_id) for queue_id in queue_ids]
        entries = entries_of(self._topic_queues, targets) if self._takes_all(columns) else None
        if entries is None:
            return None
        records = RecordColumns(
            heads=self._heads(columns),
            bodies=columns.bodies,
            properties=Pieces.of_rows(columns.properties),
            entries=entries,
            entry_of=queue_of,
        )
        batch = records.encode(start=start, room=room, store_ms=store_ms)
        if batch is None:
            return None
        heads = records.heads
        return batch, StoredColumns(
            heads["phy_offset"].astype(np.int64), heads["queue_offset"].astype(np.int64)
        )

    def _takes_all(self, columns: MessageColumns) -> bool:
        """Whether none can be refused; ``RecordWriter`` says which are refused, and why."""
        first = columns.first
        body_size, properties_size = int(columns.bodies.sizes.max()), columns.properties.shape[1]
        size = BODY_AT + body_size + len(first.topic.encode()) + properties_size + 4
        return (
            len(first.born_host) == len(self._store_host) == HOST_SIZE_V4
            and not first.sys_flag & ~_RUN_FLAGS
            and body_size <= self._body_size_max
            and 0 < properties_size <= PROPERTIES_SIZE_MAX
            and size <= self._record_size_max
            and INNER_NUM not in columns.properties.tobytes()
        )

    def _heads(self, columns: MessageColumns) -> NDArray[np.void]:
        """The heads, but for what the place in the log decides."""
        first, bodies = columns.first, columns.bodies
        head = RECORD_HEAD.pack(
            0,
            0,
            0,
            0,
            first.flag,
            0,
            0,
            first.sys_flag,
            0,
            first.born_host,
            0,
            self._store_host,
            first.reconsume_times,
            first.prepared_offset,
            0,
        )
        heads = rows_like(head, len(columns), ()).view(HEAD.dtype).reshape(-1)
        sums = [crc32(body) for body in bodies.each()]
        heads["body_crc"] = np.array(sums, np.uint32) & np.uint32(BODY_CRC_MASK)
        heads["born_ms"] = columns.born_ms
        heads["body_length"] = bodies.sizes
        return heads
