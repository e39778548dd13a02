"""Compressed bodies: the broker stores them as they come; dumps and audits read them.

The kind stands in ``sysFlag``: bit 0 compressed, bits 8 to 10 the algorithm, where 0 is zlib too
(C++ and Go clients know no other). zlib is an RFC 1950 stream, LZ4 and Zstandard are frames.

A small body may unpack to anything, so at most the allowed size and one step more is ever unpacked.

Source: Java ``CompressionType``, ``ZlibCompressor``, ``Lz4Compressor``, ``ZstdCompressor``.
"""

from __future__ import annotations

import zlib

import lz4.frame
import zstandard

from .message import COMPRESSION_MASK, SysFlag
from .record import Record
from .record_spans import RecordError

UNPACKED_SIZE_MAX = 64 << 20
"""Bytes that a body may unpack to: 16 times the largest stored one."""

_ZSTD_WINDOW_SIZE_MAX = 8 << 20
"""Bytes a decoder must be able to keep, by the Zstandard format."""
_ZSTD_STEP_SIZE = 256
"""Bytes taken at a time: 64 blocks at most, which unpack to no more than 8 MiB."""


def decompress_body(record: Record, *, size_max: int = UNPACKED_SIZE_MAX) -> bytes:
    """The body as the producer wrote it.

    Args:
        record: Whose body it is.
        size_max: Bytes that it may unpack to.

    Raises:
        RecordError: Not what ``sysFlag`` says, cut short, or larger than ``size_max``.
    """
    return unpacked(
        record.body, record.sys_flag, f"record at {record.phy_offset}", size_max=size_max
    )


def unpacked(stored: bytes, sys_flag: int, place: str, *, size_max: int) -> bytes:
    """The body that a record with such flags holds.

    Args:
        stored: As the record has it.
        sys_flag: Of the record.
        place: Of the record, for the error.
        size_max: Bytes that it may unpack to.

    Raises:
        RecordError: Not what ``sys_flag`` says, cut short, or larger than ``size_max``.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return stored
    kind = sys_flag & COMPRESSION_MASK
    place = f"{place}: body"
    try:
        if kind in (0, SysFlag.COMPRESSION_ZLIB):
            body, is_whole = _unpack_zlib(stored, size_max)
        elif kind == SysFlag.COMPRESSION_LZ4:
            body, is_whole = _unpack_lz4(stored, size_max)
        elif kind == SysFlag.COMPRESSION_ZSTD:
            body, is_whole = _unpack_zstd(stored, size_max)
        else:
            raise RecordError(f"{place}: expected compression 0 to 3, found {kind >> 8}")
    except (zlib.error, zstandard.ZstdError, RuntimeError) as error:
        raise RecordError(f"{place}: does not unpack: {error}") from error
    if len(body) > size_max:
        raise RecordError(f"{place}: expected at most {size_max} bytes unpacked")
    if not is_whole:
        raise RecordError(f"{place}: ends within its compressed data")
    return body


def _unpack_zlib(data: bytes, size_max: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    body = stream.decompress(data, size_max + 1)
    return body, stream.eof


def _unpack_lz4(data: bytes, size_max: int) -> tuple[bytes, bool]:
    frame = lz4.frame.LZ4FrameDecompressor()
    body = frame.decompress(data, size_max + 1)
    return body, frame.eof


def _unpack_zstd(data: bytes, size_max: int) -> tuple[bytes, bool]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_SIZE_MAX)
    frame = decompressor.decompressobj()
    pieces: list[bytes] = []
    size = 0
    for at in range(0, len(data), _ZSTD_STEP_SIZE):
        piece = frame.decompress(data[at : at + _ZSTD_STEP_SIZE])
        pieces.append(piece)
        size += len(piece)
        if frame.eof or size > size_max:
            break
    return b"".join(pieces), frame.eof
