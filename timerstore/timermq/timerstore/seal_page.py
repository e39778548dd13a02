"""Seals: a checksum of each sector of a segment, and the pages that hold them.

RocketMQ's files have a checksum of a message's body alone. So each sector (512 bytes) of a sealed
file has a *seal*, and 61 of them stand in a *page*, which is as large as a sector and therefore
written whole or not at all::

    0       4         8       16                          504     508   512
    ┌───────┬─────────┬───────┬───────────────────────────┬───────┬─────┐
    │ magic │ covered │ start │ 61 seals, 8 bytes each    │ found │ crc │
    └───────┴─────────┴───────┴───────────────────────────┴───────┴─────┘

A page that is damaged, missing, or of another place says nothing: its sectors count as unsealed.

A seal is the sum of the sector's 64 little-endian words of 64 bits, each mixed and times an odd
number, modulo 2^64 (multilinear hashing; Lemire and Kaser, "Strongly universal string hashing is
fast", 2014). A word is mixed by its upper half, which is added bit by bit to the lower one: the top
bits of a product tell little of the words' top bits alone. For many sectors at a time it costs half
of what a CRC-32C of each does. A changed word always changes the sum, and by how much tells what
each word would have been before. Damage within 32 bits is put right: all but one of the words would
have changed in both halves, but for one case in 2^25.
"""

from __future__ import annotations

import zlib

import attrs
import numpy as np
from numpy.typing import NDArray

from .disk import Bytes
from .layout import Layout

SECTOR_SIZE = 512
"""Bytes that one seal covers."""

PAGE_SIZE = 512
SEALS_IN_PAGE = 61
COPIED_SIZE_MAX = 64 << 10
"""Fewer bytes are copied to be sealed in one piece."""
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
    (
        ("found", "I", "1: some seal was made of what stood there, 0: all as it was written"),
        ("crc", "I", "CRC-32 of the page before it"),
    ),
)
_SEALS_SIZE = 8 * SEALS_IN_PAGE
_TAIL_AT = PAGE_HEAD.size + _SEALS_SIZE
assert _TAIL_AT + PAGE_TAIL.size == PAGE_SIZE
_CRC_AT = _TAIL_AT + PAGE_TAIL.offset_of("crc")
_AS_WRITTEN, _IS_FOUND = bytes(4), (1).to_bytes(4)

WORD = np.dtype("<u8")
WORD_COUNT = SECTOR_SIZE // 8

Sums = NDArray[np.uint64]
"""Seals, one a sector; or words of 64 bits."""


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
"""The inverses of the factors, modulo 2^64."""
_HALVES = np.full(WORD_COUNT * SEALS_IN_PAGE, 32, np.uint64)
"""Bits, for each word of a stretch: numpy takes longer with one number for all."""


def _mixed(words: Sums) -> Sums:
    """The upper half of each word is added to the lower one, bit by bit; twice is not at all."""
    halves = _HALVES[: len(words)] if len(words) <= len(_HALVES) else _HALVES[:1]
    mixed = np.right_shift(words, halves)
    return np.bitwise_xor(mixed, words, mixed)


def seals_of(data: Bytes) -> Sums:
    """The seal of each sector of some bytes; a last sector that is not whole ends in zeros."""
    rest = -len(data) % SECTOR_SIZE
    words = np.frombuffer(bytes(data) + bytes(rest) if rest else data, WORD)
    return np.asarray(np.einsum("ij,j->i", _mixed(words).reshape(-1, WORD_COUNT), FACTORS))


def seals_behind(tail: bytes, data: Bytes) -> tuple[Sums, bytes]:
    """The seals of some bytes that follow others, without a copy of many.

    Args:
        tail: What stands before them of a sector that is not whole.
        data: The bytes.

    Returns:
        The seals from the sector of ``tail`` on, and the bytes of a last sector that is not whole.
    """
    size = len(data)
    if size < COPIED_SIZE_MAX:
        sectors = tail + data
        return seals_of(sectors), sectors[len(sectors) - len(sectors) % SECTOR_SIZE :]
    first = -len(tail) % SECTOR_SIZE
    last = size - (size - first) % SECTOR_SIZE
    with memoryview(data) as view:
        rest = bytes(view[last:])
        with view[first:last] as whole:
            parts = (seals_of(tail + view[:first]), seals_of(whole), seals_of(rest))
    return np.concatenate(parts), rest


def seal_of(sector: bytes) -> int:
    """The seal of one sector; less than a whole one ends in zeros."""
    return int(seals_of(sector)[0])


def repaired(sector: bytes, sealed: int) -> bytes | None:
    """The sector as it was written, if it has changed within one half of a word; else None.

    Args:
        sector: As it is; less than a whole one ends in zeros.
        sealed: Its seal as it was written.
    """
    words = np.frombuffer(sector.ljust(SECTOR_SIZE, b"\0"), WORD).astype(np.uint64)
    difference = np.uint64((seal_of(sector) - sealed) % (1 << 64))
    before = _mixed(_mixed(words) - INVERSES * difference)
    changes = before ^ words
    (places,) = np.nonzero((changes >> _HALVES[:1] == 0) != (changes << _HALVES[:1] == 0))
    if len(places) != 1:
        return None
    words[places[0]] = before[places[0]]
    whole = words.astype(WORD).tobytes()
    is_inside = not any(whole[len(sector) :])
    return whole[: len(sector)] if is_inside else None


def changed_at(sector: bytes, before: bytes) -> int:
    """The first byte in which a damaged sector differs from what it was."""
    return next(index for index, byte in enumerate(sector) if byte != before[index])


def encode_pages(start: int, covered: int, seals: Sums, *, is_found: bool = False) -> bytes:
    """The pages of stretches that follow each other.

    Args:
        start: Position of the first stretch in its log.
        covered: Bytes that are sealed from there on; 0 makes one page, which seals nothing.
        seals: One for each of their sectors.
        is_found: As ``SealPage`` has it, for the first stretch.
    """
    data = seals.tobytes()
    pages = list[bytes]()
    for first in range(0, max(len(data), 1), _SEALS_SIZE):
        size = min(covered, STRETCH_SIZE)
        head = PAGE_HEAD.struct.pack(PAGE_MAGIC, size, start)
        page = (head + data[first : first + _SEALS_SIZE]).ljust(_TAIL_AT, b"\0")
        page += _IS_FOUND if is_found else _AS_WRITTEN
        pages += (page, zlib.crc32(page).to_bytes(4, "big"))
        is_found, start, covered = False, start + STRETCH_SIZE, covered - size
    return b"".join(pages)


@attrs.frozen(eq=False, kw_only=True)
class SealPage:
    """The seals of one stretch of a log, as its file of seals holds them."""

    start: int
    """Position of its first byte in its log."""
    covered: int
    """Bytes of the stretch that are sealed, at most ``STRETCH_SIZE``."""
    seals: Sums
    """Of the sectors that are sealed, the last of which may not be whole."""
    is_found: bool = False
    """Some of them were made of what stood there, which an earlier process, or another program, had
    written: that it fits does not show that it is right."""

    @classmethod
    def empty(cls, start: int) -> SealPage:
        """A page that seals nothing yet."""
        return cls(start=start, covered=0, seals=np.zeros(0, np.uint64))

    @classmethod
    def decode(cls, page: bytes, start: int) -> SealPage | None:
        """Read the page of the stretch at ``start``; None when the bytes are not that page."""
        if len(page) != PAGE_SIZE:
            return None
        magic, covered, stated = PAGE_HEAD.unpack(page, 0)
        found, crc = PAGE_TAIL.unpack(page, _TAIL_AT)
        if magic != PAGE_MAGIC or stated != start or covered > STRETCH_SIZE:
            return None
        if crc != zlib.crc32(page[:_CRC_AT]):
            return None
        seals = np.frombuffer(page, WORD, -(-covered // SECTOR_SIZE), PAGE_HEAD.size)
        return cls(start=start, covered=covered, seals=seals, is_found=found > 0)

    def seal_of(self, sector: int) -> tuple[int, int]:
        """How many bytes of a sector of the stretch are sealed, and its seal; 0 bytes: none.

        Args:
            sector: Position in the log.
        """
        at = sector - self.start
        size = min(max(self.covered - at, 0), SECTOR_SIZE)
        return size, int(self.seals[at // SECTOR_SIZE]) if size else 0

    def encode(self) -> bytes:
        """The page as it is written, as large as a sector."""
        return encode_pages(self.start, self.covered, self.seals, is_found=self.is_found)

    def damaged(self, data: bytes) -> list[int]:
        """Which sealed sectors of the stretch are not as they were written, by their number.

        Args:
            data: The stretch from its start, at least ``covered`` bytes.
        """
        if not self.covered:
            return []
        found = seals_of(data[: self.covered])
        return [int(one) for one in np.flatnonzero(found != self.seals[: len(found)])]
