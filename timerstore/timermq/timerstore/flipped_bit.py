"""Which bit of some bytes has flipped, told by the CRC-32 that they had.

A CRC is linear: what a flipped bit changes of it depends on its place alone, and no two places of a
file of this size change it alike. So the difference of the two CRCs is carried back byte by byte,
from the end, until it is the one that a single bit makes.
"""

from __future__ import annotations

from zlib import crc32

SIZE_MAX = 1 << 20
"""Bytes that are searched: a fifth of a second."""

_POLYNOMIAL = 0xEDB88320


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_entry, range(256)))
_BACK = {entry >> 24: (byte, entry) for byte, entry in enumerate(_TABLE)}
"""The upper byte of an entry, which no other one has, to its number and the entry."""
_OF_BIT = {_TABLE[1 << bit]: bit for bit in range(8)}


def flipped_bit(data: bytes, crc: int) -> tuple[int, int] | None:
    """The one bit in which some bytes differ from those with a CRC.

    Args:
        data: As they are.
        crc: As it was.

    Returns:
        Offset of the byte, and the number of the bit; None: none at all, more than one, or more
        bytes than ``SIZE_MAX``.
    """
    left = crc32(data) ^ crc
    if not left or len(data) > SIZE_MAX:
        return None
    for offset in range(len(data) - 1, -1, -1):
        bit = _OF_BIT.get(left)
        if bit is not None:
            return offset, bit
        byte, entry = _BACK[left >> 24]
        left = (left ^ entry) << 8 & 0xFFFFFFFF | byte
    return None


def repaired(data: bytes, offset: int, bit: int) -> bytes:
    """The bytes with a bit turned over."""
    return data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]
