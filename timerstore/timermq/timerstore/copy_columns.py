"""A run of records as columns, to be written again under other topics: most due timers go so.

Nearly all of a delivered record stands in the waiting one already: checksum, flags, born data, body
and the producer's properties are taken over, without a message in between. Heads are changed as
columns; only slices are cut record by record. That is a fifth of what a put costs. The records of a
run have IPv4 hosts and no transaction, and fit the segment together. For others, and for few
records, the caller makes messages.

Source: Java ``TimerMessageStore.convertMessage`` with ``MessageStore.putMessage``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places
from .byte_columns import Pieces
from .message import HOST_SIZE_V4, SysFlag
from .record_block import RecordBlock
from .record_columns import RecordColumns, entries_of
from .record_layout import BODY_AT, HEAD, MAGIC_V1
from .record_writer import EncodedBatch
from .topic_queue import TopicQueueTable

_NOT_IN_RUN = ~int(SysFlag.COMPRESSED | SysFlag.MULTI_TAGS | SysFlag.NEED_UNWRAP) & 0xFF
"""Bits that the last byte of sysFlag has in no record of a run."""
_WHOLE = np.dtype(f"V{HEAD.size}")
"""A head as one piece, which numpy copies faster than its fields."""
_LENGTH_SIZE = 2
"""Bytes of the length before the properties."""


@attrs.frozen(eq=False)
class CopyColumns:
    """A run of records of one topic that are to be written again."""

    topic_part: bytes
    """Length and name of the topic that all records have."""
    block: RecordBlock
    ends: Places
    """Where, in the block, the properties end that each copy keeps."""
    targets: Sequence[tuple[str, int]]
    """Topics and queues."""
    target_of: NDArray[np.intp]
    """Which of them each copy goes to."""
    origins: NDArray[np.int64]
    """The preparedTransactionOffset of each copy."""

    def __len__(self) -> int:
        return len(self.block)


@attrs.frozen(eq=False)
class _Cuts:
    """The parts kept of each record: its body, and the properties that it keeps."""

    body_starts: Places
    body_ends: Places
    properties_starts: Places

    @classmethod
    def of(cls, columns: CopyColumns) -> _Cuts | None:
        """None when the records are no run."""
        block, heads = columns.block, columns.block.heads
        body_starts = block.starts + BODY_AT
        body_ends = body_starts + heads["body_length"]
        properties_starts = body_ends + len(columns.topic_part) + _LENGTH_SIZE
        if (
            (heads["magic"] != MAGIC_V1).any()
            or (heads["sys_flag"] & _NOT_IN_RUN).any()
            or (body_starts > body_ends).any()
            or (properties_starts > columns.ends).any()
            or not block.have(columns.topic_part, body_ends)
        ):
            return None
        return cls(body_starts, body_ends, properties_starts)


class CopyColumnsWriter:
    """Encodes the copies of a run.

    Args:
        topic_queues: Next queue offsets; they advance here.
        store_host: Address in every record, packed.
    """

    def __init__(self, topic_queues: TopicQueueTable, store_host: bytes) -> None:
        self._topic_queues = topic_queues
        self._store_host = store_host

    def encode(
        self, columns: CopyColumns, *, start: int, room: int, store_ms: int
    ) -> EncodedBatch | None:
        """Lay out copies behind the end of the log, all of them or none.

        Args:
            columns: The records to write again, at least one.
            start: End of the log.
            room: Bytes left in the newest segment.
            store_ms: Store time of the whole batch.

        Returns:
            None when the records are no run, or the segment ends within the batch.
        """
        cuts = _Cuts.of(columns)
        if len(self._store_host) != HOST_SIZE_V4 or cuts is None:
            return None
        entries = entries_of(self._topic_queues, columns.targets)
        if entries is None:
            return None
        heads = columns.block.heads.view(_WHOLE).copy().view(HEAD.dtype)
        heads["store_host"] = np.void(self._store_host)
        heads["prepared_transaction_offset"] = columns.origins
        records = RecordColumns(
            heads=heads,
            bodies=Pieces(columns.block.data, cuts.body_starts, cuts.body_ends),
            properties=Pieces(columns.block.data, cuts.properties_starts, columns.ends),
            entries=entries,
            entry_of=columns.target_of,
        )
        return records.encode(start=start, room=room, store_ms=store_ms)
