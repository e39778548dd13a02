"""Bodies for clients that know zlib alone: LZ4 and Zstandard are unpacked as they are pulled.

RocketMQ's broker hands bodies out as they came. Its C++ client takes every packed body for zlib and
ends the whole process on another, or on a damaged one; the Go client hands the packed bytes to the
program. So a Java producer that is set to LZ4, or any client that sends a wrong flag, kills the C++
consumers of its topic. These two get a body of another algorithm unpacked; of one that does
not unpack, the program gets the bytes as they are. For C++ zlib bodies are tried as well. The store
keeps what the producer sent.

Unpacking takes time that other clients wait for, so it is done in steps, and an answer ends once it
has cost enough; to pack the bodies with zlib would take ten times as long.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import attrs

from timermq.timerstore.body_codec import unpacked_pieces
from timermq.timerstore.message import COMPRESSION_MASK, SysFlag
from timermq.timerstore.record import QUEUE_OFFSET_AT, SYS_FLAG_AT, Record, decode_record
from timermq.timerstore.record_layout import BODY_CRC_MASK, HEAD
from timermq.timerstore.record_spans import RecordError, head_size, record_spans

from ..steps import Steps, at_once

UNPACKED_SIZE_MAX = 8 << 20
"""Bytes that one body may unpack to; with more it counts as one that does not. Producers send at
most 4 MiB, unpacked, unless they are told otherwise. About 20 ms, in eight steps."""
ANSWER_SIZE_MAX = 1 << 20
"""Bytes unpacked for one answer; the message that reaches it is the last one."""
STEP_COUNT = 1_024
"""Pieces of a body that are unpacked in one step, if they are that small."""
STEP_SIZE = 512 << 10
"""Bytes behind which a step of unpacking ends."""

_ZLIB_KINDS = (0, SysFlag.COMPRESSION_ZLIB)
_BODY_CRC_AT = HEAD.offset_of("body_crc")


@attrs.frozen
class ZlibBodies:
    """Records for a client that knows zlib alone: their bodies unpacked where needed."""

    records: list[bytes]
    """Records, or runs of neighbouring ones."""
    next_offset: int | None
    """Offset to go on at when the answer ends early; None when everything is in it."""


def with_zlib_bodies(runs: Sequence[bytes], *, checks_zlib: bool = False) -> ZlibBodies:
    """Records as a client can read them that knows zlib alone.

    Args:
        runs: Whole records, neighbouring ones in one piece.
        checks_zlib: The client does not survive a zlib body that is damaged.
    """
    return at_once(zlib_bodies_steps(runs, checks_zlib=checks_zlib))


def zlib_bodies_steps(runs: Sequence[bytes], *, checks_zlib: bool = False) -> Steps[ZlibBodies]:
    """The same in steps of ``STEP_SIZE`` bytes; small bodies take one together."""
    records: list[bytes] = []
    unpacked_size = 0
    for run in runs:
        done = 0
        for at, end, is_zlib in _packed(run):
            if is_zlib and not checks_zlib:
                continue
            records.append(run[done:at])
            record, size = yield from _readable(run[at:end], is_zlib=is_zlib)
            records.append(record)
            done = end
            unpacked_size += size
            if unpacked_size >= ANSWER_SIZE_MAX:
                offset = int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], "big")
                return ZlibBodies(records, offset + 1)
        records.append(run[done:] if done else run)
    return ZlibBodies(records, None)


def _packed(run: bytes) -> Iterator[tuple[int, int, bool]]:
    """Start and end of the records whose bodies are packed, and whether with zlib."""
    at = 0
    while at < len(run):
        end = at + int.from_bytes(run[at : at + 4], "big")
        flags = int.from_bytes(run[at + SYS_FLAG_AT : at + SYS_FLAG_AT + 4], "big")
        if flags & SysFlag.COMPRESSED:
            yield at, end, flags & COMPRESSION_MASK in _ZLIB_KINDS
        at = end


def _readable(data: bytes, *, is_zlib: bool) -> Steps[tuple[bytes, int]]:
    """The record with a body that is readable, and how many bytes were unpacked for it."""
    record = decode_record(data)
    flags = record.sys_flag & ~COMPRESSION_MASK & ~SysFlag.COMPRESSED
    try:
        pieces, crc, size = yield from _unpacked(record, keeps=not is_zlib)
    except RecordError:
        return _with_body(data, flags, [record.body], zlib.crc32(record.body)), UNPACKED_SIZE_MAX
    return data if is_zlib else _with_body(data, flags, pieces, crc), size


def _unpacked(record: Record, *, keeps: bool) -> Steps[tuple[list[bytes], int, int]]:
    """Pieces of a body, none unless ``keeps``, their CRC-32 and their size."""
    pieces: list[bytes] = []
    crc, size, rest, count = 0, 0, STEP_SIZE, 0
    place = f"record at {record.phy_offset}"
    for piece in unpacked_pieces(record.body, record.sys_flag, place, size_max=UNPACKED_SIZE_MAX):
        if count >= STEP_COUNT or rest <= 0:
            # Behind a whole step, and more is to come: a small body takes none of its own.
            yield
            rest, count = STEP_SIZE, 0
        if keeps:
            pieces.append(piece)
            crc = zlib.crc32(piece, crc)
        size += len(piece)
        rest -= len(piece)
        count += 1
    return pieces, crc, size


def _with_body(data: bytes, sys_flag: int, pieces: Sequence[bytes], crc: int) -> bytes:
    """A record with another body, in pieces with their CRC-32."""
    body_at, body_end = head_size(data), record_spans(data)[0]
    body_size = sum(map(len, pieces))
    size = len(data) + body_size - (body_end - body_at)
    parts = (
        size.to_bytes(4, "big"),
        data[4:_BODY_CRC_AT],
        (crc & BODY_CRC_MASK).to_bytes(4, "big"),
        data[_BODY_CRC_AT + 4 : SYS_FLAG_AT],
        sys_flag.to_bytes(4, "big"),
        data[SYS_FLAG_AT + 4 : body_at - 4],
        body_size.to_bytes(4, "big"),
        *pieces,
        data[body_end:],
    )
    return b"".join(parts)
