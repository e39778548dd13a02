"""Rows of a task as the sink takes them: few properties at a time, numbered and hashed.

Where several brokers share a job, a row's hash says whose it is: the same row is always the same
one's, in whatever partition and run it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerstore.array_types import Places

from .property_columns import narrow_batches
from .row_sum import Words, row_words
from .schedule_columns import ScheduleColumns


@attrs.frozen(eq=False)
class Portion:
    """Some rows of a partition."""

    rows: pa.RecordBatch
    """Narrow: with few names of properties (``narrow_batches``)."""
    places: Places
    """Their numbers in the partition, from 0."""
    words: Words
    """Their hashes."""

    def share(self, index: int, count: int) -> Portion:
        """The rows of one broker.

        Args:
            index: Its number, from 0.
            count: Of brokers.
        """
        mine = self.words[:, 0] % np.uint64(count) == index
        # The stubs of pyarrow leave the type of a filter open.
        rows: Any = self.rows
        return Portion(rows.filter(pa.array(mine)), self.places[mine], self.words[mine])


def portions(batches: Iterator[pa.RecordBatch], columns: ScheduleColumns) -> Iterator[Portion]:
    """The rows of a task.

    Args:
        batches: As Spark hands them over.
        columns: Of the DataFrame.
    """
    first = 0
    for batch in batches:
        for rows in narrow_batches(batch, columns):
            places = np.arange(first, first + rows.num_rows, dtype=np.int64)
            yield Portion(rows, places, row_words(rows, columns))
            first += rows.num_rows
