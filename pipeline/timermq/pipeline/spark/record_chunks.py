"""The commit log as columns: the records of a stretch of it, their heads, where their parts lie.

Records follow each other by their sizes, and that is the one thing that is read record by record.
All else is gathered for the records of a chunk together, and checked as recovery checks a record:
magic, position, and lengths that add up. What does not fit ends the chunk there, as ``Damage``; its
text is that of ``check_record``.

An IPv6 host makes a head longer, so heads are gathered by kind of head; a V2 record has a longer
length before its topic. Neither is a way of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.byte_columns import rows_at
from timermq.timerstore.message import HOST_SIZE_V4, HOST_SIZE_V6, format_host
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX
from timermq.timerstore.record_check import check_record
from timermq.timerstore.record_layout import (
    BLANK,
    BLANK_MAGIC,
    BLANK_SIZE,
    BODY_AT,
    BORN_V6,
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    STORE_V6,
    SYS_FLAG_AT,
    TOPIC_SIZE_V1_MAX,
    V6_BITS,
    V6_EXTRA,
    head_layout,
)

from .byte_arrays import Values, distinct, pieces, taken
from .errors import SparkJobError
from .file_part import FilePart
from .property_arrays import PropertyArrays

CHUNK_BYTES = 16 << 20
"""Bytes of the log that are looked at together; a larger record is read whole."""

_NUMBERS = np.dtype(
    [
        (field.name, f"i{np.dtype(HEAD.dtype[field.name]).itemsize}")
        for field in HEAD.fields
        if not field.code.endswith("s")
    ]
)
"""The numbers of a head, in the machine's order of bytes."""
_SIZE = struct.Struct(">i")
_KINDS = {
    kind: head_layout(
        HOST_SIZE_V6 if kind & BORN_V6 else HOST_SIZE_V4,
        HOST_SIZE_V6 if kind & STORE_V6 else HOST_SIZE_V4,
    )
    for kind in (0, BORN_V6, STORE_V6, V6_BITS)
}
"""Bits of sysFlag to the head that they mean."""


@attrs.frozen
class Damage:
    """A place in the log where no record begins though one should."""

    phy_offset: int
    reason: str
    """The expected value and the found one."""
    end: int
    """The position at which reading can go on."""


@attrs.define(eq=False, slots=False)
class RecordChunk:
    """Whole records of the log; none is damaged."""

    data: bytes
    """The bytes that hold them, and maybe more."""
    starts: Places
    """Start of each in ``data``, ascending."""
    heads: NDArray[np.void]
    """Their ``_NUMBERS``."""
    body_starts: Places
    body_ends: Places
    topic_starts: Places
    topic_ends: Places

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Places:
        """End of each record in ``data``, ascending."""
        return np.asarray(self.starts + self.heads["total_size"], np.int64)

    @cached_property
    def properties(self) -> Values:
        """The property texts, as stored."""
        return pieces(self.data, self.topic_ends + 2, self.ends)

    @cached_property
    def found(self) -> PropertyArrays:
        """The properties of the records, to be looked up by name."""
        return PropertyArrays(self.properties)

    @cached_property
    def topics(self) -> Values:
        """The topic of each record, as bytes."""
        return pieces(self.data, self.topic_starts, self.topic_ends)

    @cached_property
    def bodies(self) -> Values:
        """The body of each record, as stored."""
        return pieces(self.data, self.body_starts, self.body_ends)

    @property
    def origins(self) -> tuple[Places, Flags]:
        """Which record each delivers, rolls or cancels, and whether it names one."""
        origins = -1 - self.heads["prepared_transaction_offset"]
        return origins, origins >= 0

    def have_topic(self, topic: bytes) -> Flags:
        """Which are of a topic."""
        found: Flags = (self.topic_ends - self.topic_starts) == len(topic)
        rows = np.flatnonzero(found)
        wanted = np.frombuffer(topic, np.uint8)
        found[rows] = (rows_at(self.data, self.topic_starts[rows], len(topic)) == wanted).all(
            axis=1
        )
        return found

    def only(self, kept: Flags) -> RecordChunk:
        """A chunk of the records whose flag in ``kept`` is set."""
        if kept.all():
            return self
        return RecordChunk(
            self.data,
            self.starts[kept],
            self.heads[kept],
            self.body_starts[kept],
            self.body_ends[kept],
            self.topic_starts[kept],
            self.topic_ends[kept],
        )

    def record(self, row: int) -> bytes:
        """The bytes of the record in a row."""
        return self.data[int(self.starts[row]) : int(self.ends[row])]

    def hosts(self, field: str) -> Values:
        """``born_host`` or ``store_host`` of each as text, ``address:port``."""
        flags = self.heads["sys_flag"]
        starts = self.starts + HEAD.offset_of(field)
        if field == "store_host":
            starts = starts + V6_EXTRA * ((flags & BORN_V6) != 0)
        is_long = (flags & (BORN_V6 if field == "born_host" else STORE_V6)) != 0
        packed = pieces(self.data, starts, starts + np.where(is_long, HOST_SIZE_V6, HOST_SIZE_V4))
        # There are few hosts and many records.
        hosts, which = distinct(packed)
        return taken(pa.array(list(map(format_host, hosts)), pa.string()), which)


def records_in(data: bytes, starts: Places, positions: Places) -> tuple[RecordChunk, Flags]:
    """The records at some places, as far as they are records.

    Args:
        data: Bytes of the log.
        starts: Where in them records should begin, ascending.
        positions: The same in the log.

    Returns:
        Those that are, and which ones they are.
    """
    fits = (starts >= 0) & (starts + FIXED_SIZE_V1 <= len(data))
    rows = np.flatnonzero(fits)
    flags = rows_at(data, starts[rows] + SYS_FLAG_AT + 3, 1)[:, 0]
    kinds = flags & V6_BITS
    heads = np.empty(len(rows), _NUMBERS)
    head_sizes = np.full(len(rows), BODY_AT, np.int64)
    good = np.ones(len(rows), np.bool_)
    for kind, layout in _KINDS.items():
        of_kind = np.flatnonzero(kinds == kind)
        whole = starts[rows[of_kind]] + layout.size <= len(data)
        good[of_kind[~whole]] = False
        of_kind = of_kind[whole]
        if not len(of_kind):
            continue
        found = rows_at(data, starts[rows[of_kind]], layout.size).view(layout.dtype)[:, 0]
        head_sizes[of_kind] = layout.size
        for name in _NUMBERS.names or ():
            heads[name][of_kind] = found[name]
    rows, heads, head_sizes = rows[good], heads[good], head_sizes[good]
    return _with_lengths(data, rows, starts[rows], heads, head_sizes, positions[rows], len(starts))


def _with_lengths(
    data: bytes,
    rows: NDArray[np.intp],
    starts: Places,
    heads: NDArray[np.void],
    head_sizes: Places,
    positions: Places,
    count: int,
) -> tuple[RecordChunk, Flags]:
    """Follow the lengths inside of records whose heads are known; see ``records_in``."""
    octets = np.frombuffer(data, np.uint8)
    limit = len(data)
    is_v2 = heads["magic"] == MAGIC_V2
    good = (heads["magic"] == MAGIC_V1) | is_v2
    good &= (heads["phy_offset"] == positions) & (heads["body_length"] >= 0)
    ends = starts + heads["total_size"]
    good &= (heads["total_size"] >= FIXED_SIZE_V1) & (ends <= limit)
    body_starts = starts + head_sizes
    body_ends = body_starts + heads["body_length"]
    topic_starts = body_ends + 1 + is_v2
    good &= topic_starts + 2 <= ends
    at = np.where(good, topic_starts, 2)
    topic_sizes = octets[at - 1].astype(np.int64)
    if is_v2.any():
        topic_sizes += np.where(is_v2, octets[at - 2].astype(np.int64) << 8, 0)
        good &= ~is_v2 | (topic_sizes < 1 << 15)
    good &= is_v2 | (topic_sizes <= TOPIC_SIZE_V1_MAX)
    topic_ends = topic_starts + topic_sizes
    good &= topic_ends + 2 <= ends
    at = np.where(good, topic_ends, 0)
    sizes = octets[at].astype(np.int64) << 8 | octets[at + 1]
    good &= (sizes <= PROPERTIES_SIZE_MAX) & (topic_ends + 2 + sizes == ends)
    chunk = RecordChunk(data, starts, heads, body_starts, body_ends, topic_starts, topic_ends)
    are = np.zeros(count, np.bool_)
    are[rows[good]] = True
    return chunk.only(good), are


def walk(data: bytes, at: int) -> tuple[list[int], int]:
    """The starts of records from a place on, by their sizes alone, and their end.

    It ends before what is no size, and before what is not whole.
    """
    size_at, starts, limit = _SIZE.unpack_from, list[int](), len(data) - _SIZE.size
    add, end = starts.append, len(data)
    while at <= limit:
        size: int = size_at(data, at)[0]
        if size < FIXED_SIZE_V1 or at + size > end:
            break
        add(at)
        at += size
    return starts, at


def chunks(part: FilePart, segment_end: int) -> Iterator[RecordChunk | Damage]:
    """The records of a part of a segment that begins with one, in order.

    Args:
        part: Where they are; its end is that of a record, of the log, or of the segment.
        segment_end: The position behind the segment.

    Returns:
        Records, and what is wrong where they end too early: then nothing follows.
    """
    pos, wanted = part.low, CHUNK_BYTES
    while pos < part.high:
        data = part.read(pos, min(pos + wanted, part.high))
        starts, at = walk(data, 0)
        places = np.array(starts, np.int64)
        chunk, are = records_in(data, places, places + pos)
        if not are.all():
            count = int(are.argmin())
            chunk, at = chunk.only(np.arange(len(chunk)) < count), starts[count]
        if len(chunk):
            yield chunk
        pos, wanted = pos + at, CHUNK_BYTES
        left = data[at : at + FIXED_SIZE_V1]
        if pos == part.high or _is_blank(left, segment_end - pos):
            return
        size = _size_of_record(left) if are.all() else 0
        if size and pos + size <= part.high:
            wanted = max(wanted, size)
        elif pos + len(left) == part.high or len(left) == FIXED_SIZE_V1:
            yield Damage(pos, _reason(part, pos), part.high)
            return


def _is_blank(left: bytes, size: int) -> bool:
    return len(left) >= BLANK_SIZE and BLANK.struct.unpack_from(left) == (size, BLANK_MAGIC)


def _size_of_record(left: bytes) -> int:
    """The size that a record states; 0 when nothing that stands there is one."""
    if len(left) < BLANK_SIZE:
        return 0
    size, magic = BLANK.struct.unpack_from(left)
    return size if magic in (MAGIC_V1, MAGIC_V2) and size >= FIXED_SIZE_V1 else 0


def _reason(part: FilePart, pos: int) -> str:
    """The fault at a position, in the words of recovery."""
    left = part.high - pos
    stated = _size_of_record(part.read(pos, pos + min(FIXED_SIZE_V1, left)))
    if stated > left:
        return f"size: expected {FIXED_SIZE_V1} to {left}, found {stated}"
    data = part.read(pos, pos + min(max(stated, FIXED_SIZE_V1), left))
    return check_record(data, 0, len(data), pos, check_crc=False).reason


def damaged(path: str, damage: Damage) -> SparkJobError:
    """The error for a caller that asked for all records."""
    return SparkJobError(
        f"{path}: position {damage.phy_offset}: {damage.reason}: `timermq store check` says what "
        "is lost, `timermq store repair` repairs it, the option damage=report reads what is whole"
    )
