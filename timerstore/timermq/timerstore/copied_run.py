"""A run of records that come as a copy, read as columns: a fifth of the time of one by one.

A run holds plain records alone: V1, IPv4 hosts, in a queue, whole and as they were stored. Whatever
is not so, or not certain, is no run: its records are looked at one by one, which tells why.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places
from .dispatch import tags_code_in
from .message import SysFlag
from .properties import TAGS
from .queue_unit import UNIT
from .record_block import RecordBlock
from .record_layout import (
    BLANK,
    BODY_AT,
    BODY_CRC_MASK,
    FIXED_SIZE_V1,
    MAGIC_V1,
    TOPIC_SIZE_V1_MAX,
    V6_BITS,
)

COUNT_MIN = 32
"""Fewer records are looked at one by one in less time."""

_UNLIKE = V6_BITS | int(SysFlag.TRANSACTION_PREPARED)
"""Bits of sysFlag that no record of a run has; the second is of half messages and rollbacks."""


@attrs.frozen(eq=False, kw_only=True)
class CopiedRun:
    """Records that stand side by side."""

    size: int
    """Bytes of them all."""
    targets: Sequence[tuple[bytes, int]]
    """Topics and queue ids, each once, in the order in which they come."""
    target_of: NDArray[np.intp]
    """The one of each record."""
    queue_offsets: Places
    ends: Places
    """End of each record in the log."""
    units: NDArray[np.void]
    """The queue unit of each record, one piece."""
    store_ms: int
    """Newest store time."""

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def of(cls, data: bytes, at: int, phy_offset: int, room: int) -> CopiedRun | None:
        """The run that begins at a place.

        Args:
            data: What has come.
            at: Where the first record begins.
            phy_offset: Its position in the log.
            room: Bytes from there to the end of the segment.

        Returns:
            None when there is none, or none that is worth it.
        """
        starts = _starts(data, at, room)
        if len(starts) <= COUNT_MIN:
            return None
        block = RecordBlock(data, starts[:-1], starts[1:])
        if not _are_plain(block, phy_offset - at):
            return None
        topics_at = block.starts + BODY_AT + block.heads["body_length"].astype(np.int64)
        topics = _topics(block, topics_at)
        if topics is None or not _have_their_bodies(block, topics_at):
            return None
        return cls._of(block, topics_at, topics, phy_offset - at)

    @classmethod
    def _of(cls, block: RecordBlock, topics_at: Places, topics: Places, distance: int) -> CopiedRun:
        data, heads = block.data, block.heads
        rows = zip(
            (topics_at + 1).tolist(), topics.tolist(), heads["queue_id"].tolist(), strict=True
        )
        numbers: dict[tuple[bytes, int], int] = {}
        target_of = [
            numbers.setdefault((data[start:end], queue_id), len(numbers))
            for start, end, queue_id in rows
        ]
        units = np.zeros(len(block), UNIT.dtype)
        units["phy_offset"], units["size"] = heads["phy_offset"], heads["total_size"]
        if data.find(TAGS, int(block.starts[0]), int(block.ends[-1])) >= 0:
            spans = zip((topics + 2).tolist(), block.ends.tolist(), strict=True)
            units["tags_code"] = [tags_code_in(data[start:end]) for start, end in spans]
        return cls(
            size=int(block.ends[-1] - block.starts[0]),
            targets=list(numbers),
            target_of=np.array(target_of, np.intp),
            queue_offsets=heads["queue_offset"].astype(np.int64),
            ends=block.ends + distance,
            units=units.view(f"V{UNIT.size}"),
            store_ms=int(heads["store_ms"].max()),
        )


def _starts(data: bytes, at: int, room: int) -> Places:
    """Where records begin that have come whole, and behind them where the last one ends."""
    unpack, limit = BLANK.struct.unpack_from, min(len(data), at + room)
    starts = [at]
    while at + FIXED_SIZE_V1 <= limit:
        size, magic = unpack(data, at)
        if magic != MAGIC_V1 or size < FIXED_SIZE_V1 or at + size > limit:
            break
        at += size
        starts.append(at)
    return np.array(starts, np.int64)


def _are_plain(block: RecordBlock, distance: int) -> bool:
    """Whether all heads are those of a run, and name the positions at which they stand."""
    heads = block.heads
    body_sizes, sizes = heads["body_length"].astype(np.int64), block.ends - block.starts
    return bool(
        ((heads["sys_flag"] & _UNLIKE) == 0).all()
        and (heads["phy_offset"] == block.starts + distance).all()
        and (body_sizes >= 0).all()
        and (body_sizes <= sizes - FIXED_SIZE_V1).all()
        and (heads["queue_offset"] >= 0).all()
    )


def _topics(block: RecordBlock, topics_at: Places) -> Places | None:
    """The end of each topic; None where the lengths do not add up."""
    octets = np.frombuffer(block.data, np.uint8)
    topic_sizes = octets[topics_at].astype(np.int64)
    ends = topics_at + 1 + topic_sizes
    if (topic_sizes > TOPIC_SIZE_V1_MAX).any() or (ends + 2 > block.ends).any():
        return None
    property_sizes = octets[ends].astype(np.int64) << 8 | octets[ends + 1]
    are_whole = (ends + 2 + property_sizes == block.ends) & (octets[ends] < 0x80)
    return ends if bool(are_whole.all()) else None


def _have_their_bodies(block: RecordBlock, body_ends: Places) -> bool:
    """Whether each body is the one that was stored, by its checksum."""
    view, crc32 = memoryview(block.data), zlib.crc32
    rows = zip(
        (block.starts + BODY_AT).tolist(),
        body_ends.tolist(),
        block.heads["body_crc"].tolist(),
        strict=True,
    )
    return all(crc32(view[start:end]) & BODY_CRC_MASK == crc for start, end, crc in rows)
