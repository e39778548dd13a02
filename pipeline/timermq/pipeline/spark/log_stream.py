"""Tables of records as streams: the commit log from a position on, as it grows.

An offset is a position in the log, ``{"py": …}``: the end of a record, or of what may be read. A
batch is the records between two of them, so it can be read again after a restart. It never ends
behind what a live broker has published. Of several stores it has a position each, by the names of
their brokers; one that joins later is read from its beginning.
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
from .named_stores import NamedStore, named_stores
from .options import ReadOptions
from .record_chunks import Damage, chunks
from .store_view import StoreView, life_of
from .tables.source import Piece, TableReader

BATCH_BYTES = 1 << 30
"""Bytes of the log in one batch at most; one record at least."""

SOLE = "py"
"""Name of the position where there is one store."""

Offset = dict[str, int]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table of records batch by batch; ``rows_per_batch`` bounds the records of the logs.

    Args:
        reader: Of the same table at one go.

    Raises:
        SparkJobError: As of ``named_stores``.
    """

    def __init__(self, reader: TableReader[LogSpan]) -> None:
        self._reader = reader
        stores = named_stores(reader.options.stores)
        precision_ms = reader.options.timer_precision_ms
        self._logs = {
            SOLE if len(stores) == 1 else one.broker: _FollowedLog(one, precision_ms)
            for one in stores
        }

    def initialOffset(self) -> Offset:
        """The positions at which the commit logs begin."""
        return {name: log.view().log.start for name, log in self._logs.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most so many records a batch."""
        return ReadMaxRows(self._reader.options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now, and then end."""
        for log in self._logs.values():
            log.stop_py = log.view().log.end

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The ends of the next batch; each of several logs gives its part of the records.

        Raises:
            SparkJobError: A log does not begin before the last batch's end any more; a store of the
                query's checkpoint is not read any more.
        """
        self._check_names(start)
        count: int | None = None
        if not isinstance(limit, ReadAllAvailable):
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else 1
            count = max(1, most // len(self._logs))
        return {name: log.latest(start.get(name), count) for name, log in self._logs.items()}

    def reportLatestOffset(self) -> Offset:
        """The ends of what may be read now."""
        return {name: log.view().log.end for name, log in self._logs.items()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The pieces of a batch.

        Raises:
            SparkJobError: A log does not begin before the batch any more, or ends within it.
        """
        self._check_names(end)
        return [
            InputPartition(Piece(log.store.broker, span))
            for name, log in self._logs.items()
            if name in end
            for span in log.spans(start.get(name), end[name], self._reader.options)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a piece."""
        return self._reader.read(partition)

    def _check_names(self, offset: Offset) -> None:
        others = sorted(offset.keys() - self._logs.keys())
        if others:
            raise SparkJobError(
                f"{self._reader.table.name}: expected the stores that the checkpoint of this query "
                f"was made from ({', '.join(sorted(offset))}; {SOLE}: a store alone), found "
                f"{', '.join(sorted(self._logs))}: begin a new query with a new checkpoint location"
            )


class _FollowedLog:
    """The commit log of one store, followed.

    Args:
        store: Whose it is.
        timer_precision_ms: Option of the table.
    """

    def __init__(self, store: NamedStore, timer_precision_ms: int | None) -> None:
        self.store = store
        self.stop_py: int | None = None
        """The end of a run that takes all records of now."""
        self._timer_precision_ms = timer_precision_ms
        self._seen: tuple[tuple[bool, int], StoreView] | None = None
        """The view that was taken last, and of which life of the store."""

    def view(self) -> StoreView:
        """The store as it stands; a stopped one is opened once, and not at each batch."""
        seen = self._seen
        life = life_of(self.store.root)
        if seen is None or seen[0] != life or seen[1].is_live:
            self._seen = seen = life, self.store.view(self._timer_precision_ms)
        return seen[1]

    def latest(self, low: int | None, count: int | None) -> int:
        """The end of the next batch.

        Args:
            low: Where it begins; None: at the beginning of the log.
            count: Records at most; None: all.
        """
        view = self.view()
        low = self._checked(view, low)
        high = view.log.end if self.stop_py is None else self.stop_py
        if low >= high or count is None:
            return max(low, high)
        return place_behind(view, low, high, count)

    def spans(self, low: int | None, high: int, options: ReadOptions) -> list[LogSpan]:
        """The stretches of a batch."""
        view = self.view()
        low = self._checked(view, low)
        if view.log.end < high:
            raise SparkJobError(
                f"{view.log.directory}: expected a log up to position {high}, found its end "
                f"at {view.log.end}: the checkpoint of this query was made from another log"
            )
        return log_spans(view, low, high, options)

    @staticmethod
    def _checked(view: StoreView, low: int | None) -> int:
        if low is None:
            return view.log.start
        if low < view.log.start:
            raise SparkJobError(
                f"{view.log.directory}: expected position {low}, where the last batch ended, found "
                f"{view.log.start} as the first one: the broker has removed what was old; what is "
                "between is lost to this query: begin a new one with a new checkpoint location"
            )
        return low


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
