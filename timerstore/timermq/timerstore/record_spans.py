"""The offsets of a record's parts: the one place that follows the lengths inside it.

Plain functions on bytes, for the hot path. Nothing here looks at more than the bytes it is given,
and no length leads to a slice or an allocation before it is compared with them: random bytes have
parts or raise ``RecordError``.

Source: Java ``MessageDecoder``.
"""

from __future__ import annotations

import mmap
import struct

from .errors import StoreError
from .properties import PROPERTIES_SIZE_MAX
from .record_layout import (
    BODY_AT,
    BODY_LENGTH_AT,
    FIXED_SIZE_V1,
    HEADS,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_SIZE_V1_MAX,
    TOPIC_SIZE_V2_MAX,
    V6_BITS,
    V6_FLAGS_AT,
)

_INT_MAX = 0x7FFFFFFF
_SIGN_BIT = 0x80

_PEEK = struct.Struct(
    f">{MAGIC_AT}xi{V6_FLAGS_AT - MAGIC_AT - 4}xB{BODY_LENGTH_AT - V6_FLAGS_AT - 1}xi"
)
"""Magic, last byte of sysFlag, body length of a record with IPv4 hosts."""
assert _PEEK.size == BODY_AT


class RecordError(StoreError):
    """Bytes that are not a record, or a message that cannot be one; the text names the field.

    In the log it is corruption (recovery cuts there), in a message the caller's mistake.
    """


def record_body(data: bytes) -> bytes:
    """The body of a whole record, as stored.

    Raises:
        RecordError: As ``record_spans``.
    """
    body_end = record_spans(data)[0]
    return data[head_size(data) : body_end]


def record_topic(data: bytes) -> bytes:
    """The topic of a whole record.

    Raises:
        RecordError: As ``record_spans``.
    """
    _, topic_at, topic_end, _ = record_spans(data)
    return data[topic_at:topic_end]


def record_properties(data: bytes) -> bytes:
    """The property text of a whole record.

    Raises:
        RecordError: As ``record_spans``.
    """
    _, _, topic_end, properties_end = record_spans(data)
    return data[topic_end + 2 : properties_end]


def head_size(data: bytes | mmap.mmap, at: int = 0) -> int:
    """Bytes before the body of the record at ``at``: 88, and 12 more for each IPv6 host."""
    return HEADS[data[at + V6_FLAGS_AT] & V6_BITS].size


def record_spans(
    data: bytes | mmap.mmap, at: int = 0, limit: int | None = None
) -> tuple[int, int, int, int]:
    """The offsets of the parts of the record at ``at``.

    Args:
        data: A whole record, or a segment that holds it.
        at: Where it begins.
        limit: Where it ends at the latest; None is the end of the data.

    Returns:
        Positions in ``data``: end of the body, start and end of the topic, end of the properties.

    Raises:
        RecordError: The magic is unknown, or a length is negative or leads beyond ``limit``.
    """
    end = len(data) if limit is None else limit
    if end - at < FIXED_SIZE_V1:
        raise RecordError(f"record: expected {FIXED_SIZE_V1} bytes or more, found {end - at}")
    peeked: tuple[int, int, int] = _PEEK.unpack_from(data, at)
    magic, flags, body_size = peeked
    # The way of nearly all records, in a third of the time; whatever does not fit goes the other.
    if magic == MAGIC_V1 and not flags & V6_BITS and 0 <= body_size <= end - at - FIXED_SIZE_V1:
        body_end = at + BODY_AT + body_size
        topic_end = body_end + 1 + data[body_end]
        if topic_end < end - 1 and data[body_end] <= TOPIC_SIZE_V1_MAX:
            properties_end = topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1])
            if properties_end <= end and data[topic_end] < _SIGN_BIT:
                return body_end, body_end + 1, topic_end, properties_end
    return _spans_of_any(data, at, end)


def _spans_of_any(data: bytes | mmap.mmap, at: int, end: int) -> tuple[int, int, int, int]:
    """``record_spans`` for both versions and all hosts; says what is wrong."""
    magic = int.from_bytes(data[at + MAGIC_AT : at + MAGIC_AT + 4], "big", signed=True)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"record: magic: expected {MAGIC_V1} or {MAGIC_V2}, found {magic}")
    topic_length_size, topic_size_max = (
        (1, TOPIC_SIZE_V1_MAX) if magic == MAGIC_V1 else (2, TOPIC_SIZE_V2_MAX)
    )
    body_at = at + head_size(data, at)
    body_end = _part_end(data, "body", at=body_at, length_size=4, size_max=_INT_MAX, end=end)
    topic_at = body_end + topic_length_size
    topic_end = _part_end(
        data, "topic", at=topic_at, length_size=topic_length_size, size_max=topic_size_max, end=end
    )
    properties_end = _part_end(
        data,
        "properties",
        at=topic_end + 2,
        length_size=2,
        size_max=PROPERTIES_SIZE_MAX,
        end=end,
    )
    return body_end, topic_at, topic_end, properties_end


def _part_end(
    data: bytes | mmap.mmap, name: str, *, at: int, length_size: int, size_max: int, end: int
) -> int:
    """End of the part that begins at ``at``; its length stands right before it."""
    if at > end:
        raise RecordError(f"record: {name}: expected its length, found the end of the record")
    # A negative length read as unsigned is above its maximum.
    size = int.from_bytes(data[at - length_size : at], "big")
    if size > size_max or size > end - at:
        raise RecordError(
            f"record: {name}: expected at most {min(size_max, end - at)} bytes, found {size}"
        )
    return at + size
