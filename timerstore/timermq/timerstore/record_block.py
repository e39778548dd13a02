"""Many records of the log in one piece of bytes, their places in it as columns.

Neighbours are read together: what was stored together is one slice. What all records have in the
same place is then read, compared and changed with array operations for the whole batch; only what
differs in length is left to loops. These operations cost nearly the same for one record as for a
hundred: who has few records reads them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places, Rows
from .byte_columns import Pieces, rows_at
from .record_layout import BODY_AT, HEAD, V6_BITS

BODY_LOOKED_MAX = 640
"""Mean size of records, bytes, up to which to look through bodies costs less than to cut them."""


@attrs.define(eq=False, slots=False)
class RecordBlock:
    """Whole records, in any order."""

    data: bytes
    starts: Places
    ends: Places

    @classmethod
    def of(cls, records: Sequence[bytes]) -> RecordBlock:
        """Join records to a block, in this order."""
        sizes = np.array([len(record) for record in records], np.int64)
        ends = np.cumsum(sizes)
        return cls(b"".join(records), ends - sizes, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def records(self) -> list[bytes]:
        """The bytes of each record, in order."""
        data = self.data
        rows = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [data[start:end] for start, end in rows]

    @cached_property
    def heads(self) -> NDArray[np.void]:
        """The heads as ``HEAD`` has them; where hosts are of IPv6 only what is before them holds.

        Every record must be as long as a head at least.
        """
        return rows_at(self.data, self.starts, HEAD.size).view(HEAD.dtype).reshape(-1)

    def text_behind_bodies(self) -> bytes:
        """Some of the bytes, among which are all topics and properties; large bodies are not."""
        if len(self.data) < BODY_LOOKED_MAX * len(self):
            return self.data
        heads = self.heads
        starts = self.starts + BODY_AT + heads["body_length"].astype(np.int64)
        if (
            (heads["sys_flag"] & V6_BITS != 0) | (starts < self.starts) | (starts > self.ends)
        ).any():
            return self.data
        return b"".join(Pieces(self.data, starts, self.ends).each())

    def octets(self, places: Places, size: int) -> Rows:
        """``size`` bytes from each place on, a row each; IndexError when they are not in here."""
        return rows_at(self.data, places, size)

    def have(self, text: bytes, places: Places) -> bool:
        """Whether ``text`` stands at every one of these places; all have room for it."""
        return bool((self.octets(places, len(text)) == np.frombuffer(text, np.uint8)).all())


def joined_runs(positions: Places, sizes: Places) -> list[tuple[int, int]]:
    """(position, size) of what is left when neighbours are joined.

    Args:
        positions: Positions of records in the log, ascending; at least one.
        sizes: Their sizes.
    """
    ends = positions + sizes
    firsts = np.flatnonzero(positions[1:] != ends[:-1]) + 1
    starts = positions[np.append(0, firsts)]
    stops = ends[np.append(firsts - 1, len(ends) - 1)]
    return list(zip(starts.tolist(), (stops - starts).tolist(), strict=True))
