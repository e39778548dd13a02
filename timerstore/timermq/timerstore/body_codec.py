"""Compressed bodies: the broker stores them as they come; dumps and audits read them.

The kind stands in ``sysFlag``: bit 0 compressed, bits 8 to 10 the algorithm, where 0 is zlib too
(C++ and Go clients know no other). zlib is an RFC 1950 stream, LZ4 and Zstandard are frames.

A small body may unpack to anything, so at most the allowed size and one step more is ever unpacked.

Source: Java ``CompressionType``, ``ZlibCompressor``, ``Lz4Compressor``, ``ZstdCompressor``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

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
PIECE_SIZE = 1 << 20
"""Bytes unpacked at a time: about 3 ms with zlib."""


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
    return b"".join(unpacked_pieces(stored, sys_flag, place, size_max=size_max))


def unpacked_pieces(stored: bytes, sys_flag: int, place: str, *, size_max: int) -> Iterator[bytes]:
    """The same of a packed body, piece by piece: for callers that let others go on in between.

    Yields:
        Pieces of at most ``PIECE_SIZE`` bytes with zlib and LZ4, of at most 8 MiB with Zstandard.

    Raises:
        RecordError: As with ``unpacked``, behind the pieces that could be unpacked.
    """
    kind = sys_flag & COMPRESSION_MASK
    place = f"{place}: body"
    try:
        if kind in (0, SysFlag.COMPRESSION_ZLIB):
            pieces = _zlib_pieces(stored)
        elif kind == SysFlag.COMPRESSION_LZ4:
            pieces = _lz4_pieces(stored)
        elif kind == SysFlag.COMPRESSION_ZSTD:
            pieces = _zstd_pieces(stored)
        else:
            raise RecordError(f"{place}: expected compression 0 to 3, found {kind >> 8}")
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > size_max:
                raise RecordError(f"{place}: expected at most {size_max} bytes unpacked")
            yield piece
    except _CutShortError as error:
        raise RecordError(f"{place}: ends within its compressed data") from error
    except (zlib.error, zstandard.ZstdError, RuntimeError) as error:
        raise RecordError(f"{place}: does not unpack: {error}") from error


class _CutShortError(Exception):
    """The data ends before the stream or frame in it does."""


def _zlib_pieces(data: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while not stream.eof:
        piece = stream.decompress(data, PIECE_SIZE)
        data = stream.unconsumed_tail
        if not piece and not stream.eof:
            raise _CutShortError
        yield piece


def _lz4_pieces(data: bytes) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        piece = frame.decompress(data, PIECE_SIZE)
        data = b""
        if not piece and not frame.eof:
            raise _CutShortError
        yield piece


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_SIZE_MAX)
    frame = decompressor.decompressobj()
    for at in range(0, len(data), _ZSTD_STEP_SIZE):
        yield frame.decompress(data[at : at + _ZSTD_STEP_SIZE])
        if frame.eof:
            return
    raise _CutShortError
