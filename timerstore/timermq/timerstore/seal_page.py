"""Seals: a checksum of each sector of a segment, and the pages that hold them.

RocketMQ's files have a checksum of a message's body alone. So each sector (512 bytes) of a sealed
file has a *seal*, and 61 of them stand in a *page*, which is as large as a sector and therefore
written whole or not at all::

    0       4         8       16                          504     508   512
    ┌───────┬─────────┬───────┬───────────────────────────┬───────┬─────┐
    │ magic │ covered │ start │ 61 seals, 8 bytes each    │ zeros │ crc │
    └───────┴─────────┴───────┴───────────────────────────┴───────┴─────┘

A page that is damaged, missing, or of another place says nothing: its sectors count as unsealed.

A seal is the sum of the sector's 128 little-endian words of 32 bits, each times an odd number of 64
bits, modulo 2^64 (multilinear hashing; Lemire and Kaser, "Strongly universal string hashing is
fast", 2014). For many sectors at a time it costs half of what a CRC-32C of each does. A changed
word always changes the sum, and by how much tells which word it was and what it was before: of the
128 factors only its own divides the difference into a number of 32 bits, but for one case in 2^24.
So a flipped bit, or any damage within a word, can be put right.
"""

from __future__ import annotations

import zlib

import attrs
import numpy as np
from numpy.typing import NDArray

from .layout import Layout

SECTOR_SIZE = 512
"""Bytes that one seal covers."""

PAGE_SIZE = 512
SEALS_IN_PAGE = 61
STRETCH_SIZE = SEALS_IN_PAGE * SECTOR_SIZE
"""Bytes that one page covers."""

PAGE_MAGIC = int.from_bytes(b"TMQS", "big")

PAGE_HEAD = Layout(
    "seal page head",
    ">",
    (
        ("magic", "I", "TMQS"),
        ("covered", "I", "bytes of the stretch that are sealed, from its start"),
        ("start", "q", "position of the stretch's first byte in its log"),
    ),
)
PAGE_TAIL = Layout(
    "seal page tail",
    ">",
    (("zeros", "I", "0"), ("crc", "I", "CRC-32 of the page before it")),
)
_SEALS_END = PAGE_HEAD.size + 8 * SEALS_IN_PAGE
assert _SEALS_END + PAGE_TAIL.size == PAGE_SIZE

WORD_BITS = 32
WORD_COUNT = SECTOR_SIZE * 8 // WORD_BITS

Sums = NDArray[np.uint64]
"""Seals, one a sector."""


def _factors() -> Sums:
    """Odd numbers from the SplitMix64 generator with seed 0; part of the format."""
    mask, state, numbers = (1 << 64) - 1, 0, list[int]()
    for _ in range(WORD_COUNT):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & mask
        numbers.append((mixed ^ (mixed >> 31)) | 1)
    return np.array(numbers, np.uint64)


FACTORS = _factors()
INVERSES: Sums = np.array([pow(one, -1, 1 << 64) for one in FACTORS.tolist()], np.uint64)
"""What undoes the factors, modulo 2^64."""


def seals_of(data: bytes) -> Sums:
    """The seal of each sector of some bytes; a last sector that is not whole ends in zeros."""
    rest = -len(data) % SECTOR_SIZE
    words = np.frombuffer(data + bytes(rest) if rest else data, "<u4")
    return np.asarray(words.reshape(-1, WORD_COUNT) @ FACTORS, np.uint64)


def mended(sector: bytes, sealed: int) -> bytes | None:
    """The sector as it was written, if one word of it alone is another; else None.

    Args:
        sector: As it is; less than a whole one ends in zeros.
        sealed: Its seal as it was written.
    """
    difference = np.uint64((int(seals_of(sector)[0]) - sealed) % (1 << 64))
    changes = (INVERSES * difference).view(np.int64)
    words = np.frombuffer(sector.ljust(SECTOR_SIZE, b"\0"), "<u4").astype(np.int64)
    before = words - changes
    fits = (np.abs(changes) < 1 << WORD_BITS) & (before >= 0) & (before < 1 << WORD_BITS)
    (places,) = np.nonzero(fits)
    if len(places) != 1 or not difference:
        return None
    words[places[0]] = before[places[0]]
    whole = words.astype("<u4").tobytes()
    is_inside = not any(whole[len(sector) :])
    return whole[: len(sector)] if is_inside else None


@attrs.define(eq=False, kw_only=True)
class SealPage:
    """The seals of one stretch."""

    start: int
    """Position of its first byte in its log."""
    covered: int
    """Bytes of the stretch that are sealed, at most ``STRETCH_SIZE``."""
    seals: Sums
    """``SEALS_IN_PAGE`` of them; those behind ``covered`` are 0."""

    @classmethod
    def empty(cls, start: int) -> SealPage:
        """A page that seals nothing yet."""
        return cls(start=start, covered=0, seals=np.zeros(SEALS_IN_PAGE, np.uint64))

    @classmethod
    def decode(cls, page: bytes, start: int) -> SealPage | None:
        """Read the page of the stretch at ``start``; None when the bytes are not that page."""
        if len(page) != PAGE_SIZE:
            return None
        magic, covered, stated = PAGE_HEAD.unpack(page, 0)
        _, crc = PAGE_TAIL.unpack(page, _SEALS_END)
        if magic != PAGE_MAGIC or stated != start or covered > STRETCH_SIZE:
            return None
        if crc != zlib.crc32(page[: PAGE_SIZE - 4]):
            return None
        seals = np.frombuffer(page, "<u8", SEALS_IN_PAGE, PAGE_HEAD.size).astype(np.uint64)
        return cls(start=start, covered=covered, seals=seals)

    def encode(self) -> bytes:
        """The page."""
        head = PAGE_HEAD.pack(PAGE_MAGIC, self.covered, self.start)
        page = b"%b%b\0\0\0\0" % (head, self.seals.astype("<u8", copy=False).tobytes())
        return b"%b%b" % (page, zlib.crc32(page).to_bytes(4, "big"))

    def damaged(self, data: bytes) -> list[int]:
        """Which sealed sectors of the stretch are not as they were written, by their number.

        Args:
            data: The stretch from its start, at least ``covered`` bytes.
        """
        if not self.covered:
            return []
        found = seals_of(data[: self.covered])
        return [int(one) for one in np.flatnonzero(found != self.seals[: len(found)])]
