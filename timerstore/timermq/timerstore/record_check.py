"""The check of one record where recovery and dispatch walk along the log.

Beyond what Java checks, the position that a record states must be where it stands, and the size of
a blank must lead to the end of its segment: whole records that a truncation left behind are never
taken for messages.

| what stands there | outcome |
| --- | --- |
| fewer than 8 bytes | bad |
| the blank's magic, and a size that ends with the segment | blank |
| another magic than V1, V2 or blank (zeros too) | bad |
| a size below 91, or beyond what may be read | bad |
| a position other than this one | bad |
| lengths that lead outside, or do not add up to the size | bad |
| a body whose checksum is another (if asked) | bad |
| anything else | record |

Source: Java ``CommitLog.checkMessageAndReturnSize``.
"""

from __future__ import annotations

import enum
import mmap
import struct
import zlib

import attrs

from .record_layout import (
    BLANK,
    BLANK_MAGIC,
    BLANK_SIZE,
    BODY_AT,
    BODY_CRC_MASK,
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    PHY_OFFSET_AT,
    V6_BITS,
    V6_FLAGS_AT,
)
from .record_spans import RecordError, head_size, record_spans

CRC_STEP_SIZE = 256 << 10
"""Bytes of a body that are copied at a time; a body may be as large as its segment."""

_BODY_CRC_AT = HEAD.offset_of("body_crc")
_STATED = struct.Struct(f">{_BODY_CRC_AT}xi{PHY_OFFSET_AT - _BODY_CRC_AT - 4}xq")
"""Body checksum and position."""
_BODY = HEAD.cut("body_crc", "body_length")
"""The same checksum and the size of the body, for IPv4 hosts."""


class CheckKind(enum.Enum):
    """The kinds of content at a position."""

    RECORD = "record"
    BLANK = "blank"
    """The segment ends here."""
    BAD = "bad"


@attrs.frozen
class CheckResult:
    """What stands at a position of the log: a record, a blank, or neither."""

    kind: CheckKind
    size: int
    """Bytes of the record; of a blank what it covers; 0 when bad."""
    reason: str = ""
    """The fault; names the field."""


def check_record(
    data: bytes | mmap.mmap, at: int, limit: int, phy_offset: int, *, check_crc: bool
) -> CheckResult:
    """Look at what stands at ``at``; no more than ``CRC_STEP_SIZE`` bytes are copied.

    Args:
        data: The whole segment.
        at: Position in ``data``.
        limit: End of what may be read of ``data``.
        phy_offset: Position in the log.
        check_crc: Compare the body's checksum too.
    """
    left = limit - at
    if left < BLANK_SIZE:
        return _bad(f"expected {BLANK_SIZE} bytes or more, found {max(left, 0)}")
    size, magic = BLANK.struct.unpack_from(data, at)
    if magic == BLANK_MAGIC:
        if size != len(data) - at:
            return _bad(f"blank: size: expected {len(data) - at}, found {size}")
        return CheckResult(CheckKind.BLANK, size)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return _bad(f"magic: expected {MAGIC_V1}, {MAGIC_V2} or {BLANK_MAGIC}, found {magic}")
    if not FIXED_SIZE_V1 <= size <= left:
        return _bad(f"size: expected {FIXED_SIZE_V1} to {left}, found {size}")
    stated_crc, stated_offset = _STATED.unpack_from(data, at)
    if stated_offset != phy_offset:
        return _bad(f"position: expected {phy_offset}, found {stated_offset}")
    try:
        body_end, _, _, end = record_spans(data, at, at + size)
    except RecordError as error:
        return _bad(str(error).removeprefix("record: "))
    if end != at + size:
        return _bad(f"size: expected {end - at} by the lengths inside, found {size}")
    if check_crc:
        found = _body_crc(data, at + head_size(data, at), body_end)
        if stated_crc != found:
            return _bad(f"body checksum: expected {found}, found {stated_crc}")
    return CheckResult(CheckKind.RECORD, size)


def has_its_body(record: bytes) -> bool:
    """Whether the body of a whole record is the one that was stored, by its checksum.

    Quick, for many records: what is wrong with one that has not, ``check_record`` says.
    """
    if len(record) < FIXED_SIZE_V1:
        return False
    stated: tuple[int, int] = _BODY.unpack_from(record)
    crc, body_size = stated
    if record[V6_FLAGS_AT] & V6_BITS:
        found = check_record(record, 0, len(record), _STATED.unpack_from(record)[1], check_crc=True)
        return found.kind is CheckKind.RECORD
    body_end = BODY_AT + body_size
    return (
        BODY_AT <= body_end <= len(record)
        and zlib.crc32(record[BODY_AT:body_end]) & BODY_CRC_MASK == crc
    )


def _body_crc(data: bytes | mmap.mmap, start: int, end: int) -> int:
    crc = 0
    for at in range(start, end, CRC_STEP_SIZE):
        crc = zlib.crc32(data[at : min(at + CRC_STEP_SIZE, end)], crc)
    return crc & BODY_CRC_MASK


def _bad(reason: str) -> CheckResult:
    return CheckResult(CheckKind.BAD, 0, reason)
