"""A part of a file of the store, read chunk by chunk, and its numbers as Arrow has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, TypeVar

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .errors import SparkJobError
from .places import RangeReader, open_ranges

_Kind = TypeVar("_Kind", bound=np.generic)


@attrs.frozen
class FilePart:
    """A range of bytes of one file of the store."""

    path: str
    start: int
    """Position of the file's first byte in its log."""
    low: int
    """First position to read."""
    high: int
    """Behind the last one."""

    def chunks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The part in order: (position, at most ``size`` bytes).

        Raises:
            SparkJobError: The file has gone, or is shorter than it was: the store was cleaned.
        """
        with closing(self.opened()) as file:
            pos = self.low
            while pos < self.high:
                wanted = min(size, self.high - pos)
                data = file.read_at(wanted, pos - self.start)
                if len(data) < wanted:
                    raise self.cleaned(f"an end at {pos + len(data)}")
                yield pos, data
                pos += wanted

    def read(self, low: int, high: int) -> bytes:
        """The bytes between two positions of the part, at one go.

        Raises:
            SparkJobError: As ``chunks``.
        """
        with closing(self.opened()) as file:
            data = file.read_at(high - low, low - self.start)
        if len(data) < high - low:
            raise self.cleaned(f"an end at {low + len(data)}")
        return data

    def opened(self) -> RangeReader:
        """The file, open for reading; to be closed by the caller.

        Raises:
            SparkJobError: As ``chunks``.
        """
        try:
            return open_ranges(self.path)
        except FileNotFoundError:
            raise self.cleaned("no file") from None

    def cleaned(self, found: str) -> SparkJobError:
        """The error for a file that has lost what is to be read."""
        return SparkJobError(
            f"{self.path}: expected bytes {self.low} to {self.high}, found {found}: the broker "
            "has removed what was old since the job began; run it again"
        )


def only(records: NDArray[_Kind], kept: NDArray[np.bool_]) -> NDArray[_Kind]:
    """Some of the records of a file; nothing is copied where all of them are kept."""
    return records if kept.all() else records[kept]


def column(
    values: NDArray[Any], kept: NDArray[np.bool_], there: NDArray[np.bool_] | None = None
) -> pa.Array[Any]:
    """Some of the values as a column, null where they are not there."""
    found = only(values, kept)
    mask = None if there is None or there.all() else ~only(there, kept)
    made: pa.Array[Any] = pa.array(found, mask=mask)
    return made


def numbers(field: NDArray[Any]) -> pa.Array[Any]:
    """A big-endian field of a structured array, in the machine's order of bytes."""
    kind = np.int32 if field.dtype.itemsize <= np.dtype(np.int32).itemsize else np.int64
    found: pa.Array[Any] = pa.array(field.astype(kind))
    return found
