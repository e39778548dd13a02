"""The messages in a stretch of the commit log: a data source for the job alone.

The rows are those of ``timermq.delivered``. When all messages are asked for, those that were not
delayed have neither moment nor lateness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import DataSource, DataSourceReader

from timermq.timerstore.array_types import Flags
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC

from ..log_places import LogSpan, log_spans
from ..options import ReadOptions
from ..record_chunks import RecordChunk
from ..record_columns import Arrays
from ..store_view import StoreView
from ..tables.delivered_table import TABLE, DeliveredReader, are_deliveries
from ..tables.source import wanted
from ..worker import keep_imports

SOURCE = "timermq.archive"
INTERNAL_PREFIX = b"rmq_sys_"
"""Of the broker's own topics, in any case of letters; beside those, that of the classic levels."""
RANGE = ("low", "high", "what", "internal")
"""Options besides those of ``timermq.delivered``."""


class StretchReader(DeliveredReader):
    """Reads a stretch.

    Args:
        options: As of ``timermq.delivered``.
        names: The columns.
        stretch: From which position of the log to which one; records begin at both.
        everything: Messages that were not delayed too.
        internal: Those of the broker's own topics too.
    """

    def __init__(
        self,
        options: ReadOptions,
        names: Sequence[str],
        stretch: tuple[int, int],
        *,
        everything: bool,
        internal: bool,
    ) -> None:
        super().__init__(options, names)
        self.stretch = stretch
        self.everything = everything
        self.internal = internal

    def spans(self, view: StoreView) -> list[LogSpan]:
        """Cut the stretch into spans; in the planner."""
        return log_spans(view, *self.stretch, self.options)

    def batches(self, span: LogSpan) -> Iterator[pa.RecordBatch]:
        """The rows of a span, chunk by chunk; in an executor."""
        if not self.everything:
            yield from super().batches(span)
            return
        for chunk in span.records():
            if not isinstance(chunk, RecordChunk):
                continue
            are = are_deliveries(chunk)
            if are.any():
                yield self._batch(chunk.only(are), span.precision_ms)
            others = chunk.only(~are)
            if not self.internal:
                others = others.only(~are_internal(others))
            if len(others):
                yield self._undelayed(others, span.precision_ms)

    def _undelayed(self, chunk: RecordChunk, precision_ms: int) -> pa.RecordBatch:
        batch = self._batch(chunk, precision_ms)
        known: Arrays = {name: batch.column(name) for name in self.names}
        none = pa.nulls(len(chunk), pa.int64())
        return self.batch(known | {"deliver_ms": none, "lateness_ms": none}, chunk.heads)


def are_internal(chunk: RecordChunk) -> Flags:
    """Which records are of the broker's own topics."""
    found = np.zeros(len(chunk), np.bool_)
    topics = np.array(chunk.topics.to_pylist(), object)
    for topic in set(topics.tolist()):
        if topic.lower().startswith(INTERNAL_PREFIX) or topic == SCHEDULE_TOPIC.encode():
            found |= topics == topic
    return found


class ArchiveSource(DataSource):
    """The rows of a stretch."""

    @classmethod
    def name(cls) -> str:
        """The name that the job asks for."""
        return SOURCE

    def schema(self) -> str:
        """The columns, which are those of ``timermq.delivered``."""
        keep_imports()
        return TABLE.ddl()

    def reader(self, schema: types.StructType) -> DataSourceReader:
        """The reader of the stretch that the options name."""
        others = {name: text for name, text in self.options.items() if name not in RANGE}
        return StretchReader(
            ReadOptions.parse(SOURCE, others, DeliveredReader.takes),
            wanted(TABLE, schema),
            (int(self.options["low"]), int(self.options["high"])),
            everything=self.options["what"] == "all",
            internal=self.options["internal"] == "true",
        )
