"""Tables of records as streams: the commit log from a position on, as it grows.

An offset is a position in the log, ``{"py": …}``: the end of a record, or of what may be read. A
batch is the records between two of them, so it can be read again after a restart. It never ends
behind what a live broker has published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .errors import SparkJobError
from .log_places import LogSpan, log_spans
from .record_chunks import Damage, chunks
from .store_view import StoreView, life_of
from .tables.source import TableReader

BATCH_BYTES = 1 << 30
"""Bytes of the log in one batch at most; one record at least."""

Offset = dict[str, int]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table of records batch by batch; ``rows_per_batch`` bounds the records of the log.

    Args:
        reader: Of the same table at one go.
    """

    def __init__(self, reader: TableReader[LogSpan]) -> None:
        self._reader = reader
        self._stop_py: int | None = None
        """The end of a run that takes all records of now."""
        self._seen: tuple[tuple[bool, int], StoreView] | None = None
        """The view that was taken last, and of which life of the store."""

    def initialOffset(self) -> Offset:
        """The position at which the commit log begins."""
        return {"py": self._view().log.start}

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most so many records a batch."""
        return ReadMaxRows(self._reader.options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now, and then end."""
        self._stop_py = self._view().log.end

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch.

        Raises:
            SparkJobError: The log does not begin before the last batch's end any more.
        """
        view, low = self._view(), start["py"]
        high = view.log.end if self._stop_py is None else self._stop_py
        self._check(view, low)
        if low >= high or isinstance(limit, ReadAllAvailable):
            return {"py": max(low, high)}
        count = limit.max_rows if isinstance(limit, ReadMaxRows) else 1
        return {"py": place_behind(view, low, high, count)}

    def reportLatestOffset(self) -> Offset:
        """The end of what may be read now."""
        return {"py": self._view().log.end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The pieces of a batch.

        Raises:
            SparkJobError: The log does not begin before the batch any more, or ends within it.
        """
        view = self._view()
        self._check(view, start["py"])
        if view.log.end < end["py"]:
            raise SparkJobError(
                f"{view.log.directory}: expected a log up to position {end['py']}, found its end "
                f"at {view.log.end}: the checkpoint of this query was made from another log"
            )
        spans = log_spans(view, start["py"], end["py"], self._reader.options)
        return [InputPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a piece."""
        return self._reader.read(partition)

    def _view(self) -> StoreView:
        """The store as it stands; a stopped one is opened once, and not at each batch."""
        options, seen = self._reader.options, self._seen
        life = life_of(options.path)
        if seen is None or seen[0] != life or seen[1].is_live:
            view = StoreView.of(options.path, timer_precision_ms=options.timer_precision_ms)
            self._seen = seen = life, view
        return seen[1]

    @staticmethod
    def _check(view: StoreView, low: int) -> None:
        if low < view.log.start:
            raise SparkJobError(
                f"{view.log.directory}: expected position {low}, where the last batch ended, found "
                f"{view.log.start} as the first one: the broker has removed what was old; what is "
                "between is lost to this query: begin a new one with a new checkpoint location"
            )


def place_behind(view: StoreView, low: int, high: int, count: int) -> int:
    """The end of the ``count``-th record from a position on, or of fewer if they are large.

    Args:
        view: The store.
        low: Start of a record.
        high: Where to stop at the latest.
        count: Records, at least 1.
    """
    end, most_py = low, low + BATCH_BYTES
    for start, first, last in view.log.segments(low, high):
        part = view.log.part(start, first, last)
        for found in chunks(part, start + view.log.segment_size):
            if isinstance(found, Damage):
                # Its batch says so, or passes it over: up to here it is bounded.
                break
            ends = found.heads["phy_offset"] + found.heads["total_size"]
            fitting = min(int(np.searchsorted(ends, most_py, side="right")), count)
            if fitting < len(ends) or fitting == count:
                fitting = max(fitting, int(end == low))
                return int(ends[fitting - 1]) if fitting else end
            end, count = int(ends[-1]), count - fitting
    return high
