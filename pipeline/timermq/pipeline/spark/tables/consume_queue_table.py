"""``timermq.consumequeue``: where the messages of each queue stand in the commit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerstore.queue_unit import FILLER_SIZE, UNIT

from ..file_part import FilePart
from ..store_view import StoreView
from .declaration import Column, Table, layout_columns
from .source import TableReader, TableSource

CHUNK_UNITS = 65_536
"""Units read at a time: 1.3 MB."""

TABLE = Table(
    name="timermq.consumequeue",
    title="The units of the consume queues: one a message that can be pulled.",
    columns=(
        Column("topic", "string", "topic of the queue, internal ones too"),
        Column("queue_id", "int", "number of the queue"),
        Column("queue_offset", "long", "number of the message in its queue"),
        *layout_columns(UNIT),
    ),
)


@attrs.frozen
class QueueSpan:
    """Units of one segment of a queue."""

    part: FilePart
    topic: str
    queue_id: int
    log_start: int
    """Units of messages before it are of segments that have gone."""
    log_end: int
    """Units of messages behind it are not to be believed yet."""


class ConsumeQueueReader(TableReader[QueueSpan]):
    """Reads units, of some topics or all."""

    table = TABLE
    takes: ClassVar[tuple[str, ...]] = ("topics",)

    def spans(self, view: StoreView) -> list[QueueSpan]:
        """A piece a segment: most queues have one."""
        return [
            QueueSpan(
                FilePart(queue.path(start), start, low, high - (high - low) % UNIT.size),
                topic,
                queue_id,
                view.log.start,
                view.log.end,
            )
            for topic, queue_id, queue in view.queues(self.options.topics)
            for start, low, high in queue.segments(queue.start, queue.end)
        ]

    def batches(self, span: QueueSpan) -> Iterator[pa.RecordBatch]:
        """Chunk by chunk, up to the first unit that was never written."""
        for at, data in span.part.chunks(CHUNK_UNITS * UNIT.size):
            units = np.frombuffer(data, UNIT.dtype)
            offsets = at // UNIT.size + np.arange(len(units), dtype=np.int64)
            ends = units["phy_offset"].astype(np.int64) + units["size"]
            kept = (units["size"] > 0) & (units["size"] != FILLER_SIZE)
            is_last = bool((units["size"] == 0).any())
            kept &= (units["phy_offset"] >= span.log_start) & (ends <= span.log_end)
            count = int(kept.sum())
            known: dict[str, pa.Array[Any]] = {
                "topic": pa.repeat(span.topic, count),
                "queue_id": pa.repeat(pa.scalar(span.queue_id, pa.int32()), count),
                "queue_offset": pa.array(offsets[kept]),
            }
            yield self.batch(known, units[kept])
            if is_last:
                return


class ConsumeQueueSource(TableSource):
    """The table ``timermq.consumequeue``, as a data source of Spark."""

    reader_type: ClassVar[type[TableReader[Any]]] = ConsumeQueueReader
