"""Records that stand side by side in some bytes, read as columns: a fraction of one by one.

A run holds plain records alone: V1, IPv4 hosts, no half message or rollback, whole, at the position
that they name, with lengths that add up. It ends before the first that is not so: a reader looks at
that one by itself, which tells why.
"""

from __future__ import annotations

import struct
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places
from .byte_columns import Pieces
from .message import SysFlag
from .record_block import RecordBlock
from .record_layout import (
    BODY_AT,
    FIXED_SIZE_V1,
    MAGIC_V1,
    SYS_FLAG_AT,
    TOPIC_SIZE_V1_MAX,
    V6_BITS,
)

COUNT_MIN = 32
"""Fewer records are looked at one by one in less time."""

_PEEK = struct.Struct(f">ii{SYS_FLAG_AT - 8}xi")
"""Size, magic and sysFlag."""
_LENGTH_SIZE = 2
"""Bytes of the length before the properties."""
_SIGN_BIT = 0x80
_UNLIKE = V6_BITS | int(SysFlag.TRANSACTION_PREPARED)
"""Bits of sysFlag that no record of a run has; the second is of half messages and rollbacks."""


@attrs.frozen(eq=False, slots=False)
class PlainRun:
    """Plain records side by side; ``of`` finds them."""

    block: RecordBlock
    body_ends: Places
    """Where bodies end, and the size of the topic stands."""
    topic_ends: Places
    distance: int
    """From a place in the bytes to the position in the log."""

    @classmethod
    def of(
        cls, data: bytes, at: int, phy_offset: int, limit: int, count_max: int | None = None
    ) -> PlainRun | None:
        """The run that begins at a place.

        Args:
            data: Bytes of the log.
            at: Where its first record begins.
            phy_offset: The position of that record in the log.
            limit: Where the run ends at the latest.
            count_max: Most records; None: as many as there are.

        Returns:
            None when it is shorter than ``COUNT_MIN`` records.
        """
        limit, distance = min(limit, len(data)), phy_offset - at
        starts = _starts(data, at, limit, count_max)
        if len(starts) <= COUNT_MIN:
            return None
        block = RecordBlock(data, starts[:-1], starts[1:])
        sizes, heads = block.ends - block.starts, block.heads
        body_sizes = heads["body_length"].astype(np.int64)
        is_plain = heads["phy_offset"] == block.starts + distance
        is_plain &= (body_sizes >= 0) & (body_sizes <= sizes - FIXED_SIZE_V1)
        # Beyond its record a size leads nowhere: the place is looked at all the same.
        body_ends = block.starts + BODY_AT + np.where(is_plain, body_sizes, 0)
        octets = np.frombuffer(data, np.uint8)
        topic_sizes = octets[body_ends].astype(np.int64)
        topic_ends = body_ends + 1 + topic_sizes
        is_plain &= (topic_sizes <= TOPIC_SIZE_V1_MAX) & (topic_ends + _LENGTH_SIZE <= block.ends)
        lengths_at = np.where(is_plain, topic_ends, body_ends)
        high, low = octets[lengths_at].astype(np.int64), octets[lengths_at + 1]
        is_plain &= (high < _SIGN_BIT) & (
            topic_ends + _LENGTH_SIZE + (high << 8 | low) == block.ends
        )
        return cls(block, body_ends, topic_ends, distance).first(count_of(is_plain))

    def __len__(self) -> int:
        return len(self.block)

    def first(self, count: int) -> PlainRun | None:
        """The run of its first records; None when they are too few."""
        if count == len(self):
            return self
        if count < COUNT_MIN:
            return None
        block = self.block
        part = RecordBlock(block.data, block.starts[:count], block.ends[:count])
        return PlainRun(part, self.body_ends[:count], self.topic_ends[:count], self.distance)

    @property
    def heads(self) -> NDArray[np.void]:
        """The heads as ``HEAD`` has them."""
        return self.block.heads

    @property
    def size(self) -> int:
        """Bytes that all records take."""
        return int(self.block.ends[-1] - self.block.starts[0])

    @property
    def positions(self) -> Places:
        """Position of each record in the log."""
        return self.block.starts + self.distance

    @cached_property
    def properties(self) -> Pieces:
        """The property text of each record."""
        return Pieces(self.block.data, self.topic_ends + _LENGTH_SIZE, self.block.ends)

    @cached_property
    def property_texts(self) -> list[bytes]:
        """The property texts, cut out of the bytes."""
        return self.properties.each()

    @cached_property
    def topics(self) -> Pieces:
        """The topic of each record."""
        return Pieces(self.block.data, self.body_ends + 1, self.topic_ends)

    def same_topic(self) -> bytes | None:
        """The one topic of all records; None when there are several."""
        rows = self.topics.rows
        return rows[0].tobytes() if rows is not None and bool((rows == rows[0]).all()) else None

    def record(self, row: int) -> bytes:
        """The bytes of a single record."""
        return self.block.data[int(self.block.starts[row]) : int(self.block.ends[row])]


def count_of(are_such: NDArray[np.bool_]) -> int:
    """The number of rows before the first that is not such a one."""
    return len(are_such) if are_such.all() else int(np.argmin(are_such))


def _starts(data: bytes, at: int, limit: int, count_max: int | None) -> Places:
    """Where plain records begin that are whole, and behind them where the last one ends."""
    unpack, last = _PEEK.unpack_from, limit - FIXED_SIZE_V1
    starts = [at]
    for _ in range(len(data) if count_max is None else count_max):
        if at > last:
            break
        size, magic, sys_flag = unpack(data, at)
        if magic != MAGIC_V1 or sys_flag & _UNLIKE or size < FIXED_SIZE_V1 or at + size > limit:
            break
        at += size
        starts.append(at)
    return np.array(starts, np.int64)
