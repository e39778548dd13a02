"""The fingerprint of a job's rows: the same for the same rows, whatever their order and parts.

A row is one run of bytes, every value behind its size; the sum of the hashes of all rows does not
depend on which task has which of them, and tasks may be retried. Rows count as they come, those
that are refused or due too late too: what becomes of a row depends on settings, which may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrow_columns import column_of, joined_values
from .property_columns import property_columns
from .schedule_columns import ScheduleColumns

_HASH_SIZE = 16
_WORDS = _HASH_SIZE // 8
_COLUMNS = ("topic", "body")
"""Beside the moment and the properties, to which ``key`` and ``tag`` belong."""
_PROPERTY = "properties."
"""The prefix that tells the name of a property from that of a column."""

Sum = tuple[int, ...]
"""Rows, and the sum of their hashes; what a task tells the commit."""
NO_ROWS: Sum = (0,) * (1 + _WORDS)


Words = NDArray[np.uint64]
"""The hashes of some rows: a row each, of ``_WORDS`` numbers."""


def row_words(batch: pa.RecordBatch, columns: ScheduleColumns) -> Words:
    """The hashes of rows, which tell nothing of their order.

    Args:
        batch: A narrow one (``property_columns.narrow_batches``).
        columns: Of the DataFrame.
    """
    rows = _row_bytes(batch, columns)
    hashes = b"".join([blake2b(row, digest_size=_HASH_SIZE).digest() for row in rows])
    return np.frombuffer(hashes, "<u8").reshape(-1, _WORDS)


class RowSum:
    """The sum of the rows of one task.

    Args:
        columns: Of the DataFrame.
    """

    def __init__(self, columns: ScheduleColumns) -> None:
        self._columns = columns
        self._rows = 0
        self._words: Words = np.zeros(_WORDS, np.uint64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows; of a narrow batch (``property_columns.narrow_batches``)."""
        self.count(row_words(batch, self._columns))

    def count(self, words: Words) -> None:
        """Count rows by their hashes, as of ``row_words``."""
        self._rows += len(words)
        self._words += words.sum(axis=0, dtype=np.uint64)

    @property
    def value(self) -> Sum:
        """Of the rows so far."""
        return (self._rows, *self._words.tolist())


def fingerprint(columns: ScheduleColumns, sums: Iterable[Sum]) -> str:
    """The fingerprint of a job, 32 hexadecimal digits.

    Args:
        columns: Of the DataFrame; their names and types count.
        sums: Of all tasks.
    """
    total = [sum(one) % (1 << 64) for one in zip(NO_ROWS, *sums, strict=True)]
    return _digest(sorted((name, str(kind)) for name, kind in columns.kinds.items()), total)


def shared_fingerprint(rows: str, brokers: Iterable[str]) -> str:
    """That of the share of one broker: the same rows among other brokers are other shares.

    Args:
        rows: The fingerprint of its rows; empty where any rows will do.
        brokers: The names of all.
    """
    return _digest(rows, sorted(brokers))


def _digest(*said: object) -> str:
    return blake2b(repr(said).encode(), digest_size=_HASH_SIZE).hexdigest()


def _row_bytes(batch: pa.RecordBatch, columns: ScheduleColumns) -> list[bytes]:
    """Each row as one run of bytes."""
    properties, _ = property_columns(batch, columns)
    own = [(name, column_of(batch, name)) for name in (*_COLUMNS, columns.moment)]
    return joined_values(
        own + [(f"{_PROPERTY}{name}", properties[name]) for name in sorted(properties)]
    )
