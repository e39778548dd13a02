"""The layouts of an index file, its header, and the hash of a key.

::

    0    begin time i64 | end time i64 | begin position i64 | end position i64
    32   slots in use i32 | number of the next entry i32 (starts at 1, entry 0 is never used)
    40   slots: number of the newest entry of the chain, i32 each, 0 is none
    …    entries: key hash i32, position i64, seconds since begin time i32, previous entry i32

A file has its full length from the beginning; all zeros is an empty one.

Source: Java ``IndexFile``, ``IndexHeader``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from .disk import File
from .errors import StoreFormatError
from .java_hash import hash_keys, java_hash
from .layout import Layout

HEADER = Layout(
    "index header",
    ">",
    (
        ("begin_timestamp", "q", "store time of the first entry, ms"),
        ("end_timestamp", "q", "store time of the last entry, ms"),
        ("begin_phy_offset", "q", "position of the first entry's message"),
        ("end_phy_offset", "q", "position of the last entry's message"),
        ("hash_slot_count", "i", "slots in use"),
        ("index_count", "i", "number of the next entry; the first is 1"),
    ),
)
ENTRY = Layout(
    "index entry",
    ">",
    (
        ("key_hash", "i", "absolute value of the key's Java hash, 0 if it has none"),
        ("phy_offset", "q", "position of the message"),
        ("time_diff", "i", "seconds since the file's begin time"),
        ("previous", "i", "number of the previous entry of the chain, 0 at its end"),
    ),
)
assert (HEADER.size, ENTRY.size) == (40, 20)

SLOT_SIZE = 4
TIME_DIFF_MAX = 2**31 - 1
"""Seconds; later entries seem to be no later."""
ENTRY_DTYPE = ENTRY.dtype

_INT_MIN = -(2**31)


def key_hash(text: str) -> int:
    """The hash of a key as entries hold it: the absolute value, and 0 where int has none."""
    value = java_hash(text)
    return 0 if value == _INT_MIN else abs(value)


def key_hashes(keys: list[bytes]) -> NDArray[np.int64]:
    """``key_hash`` of many keys at once."""
    return folded(hash_keys(keys))


def folded(hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Hashes of Java's as the index has them: without their sign."""
    wide = hashes.astype(np.int64)
    return np.where(wide == _INT_MIN, 0, np.abs(wide))


def file_size(slot_count: int, entry_count_max: int) -> int:
    """Bytes of an index file."""
    return HEADER.size + slot_count * SLOT_SIZE + entry_count_max * ENTRY.size


@attrs.frozen(kw_only=True)
class IndexHeader:
    """The stored header; times are epoch milliseconds."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1
    """Number of the next entry."""

    def encode(self) -> bytes:
        """The header as it stands in the file, ``HEADER.size`` bytes."""
        return HEADER.pack(
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy_offset,
            self.end_phy_offset,
            self.hash_slot_count,
            self.index_count,
        )


def read_header(file: File, slot_count: int, entry_count_max: int) -> IndexHeader:
    """The header of a file; the empty one where nothing is counted.

    Raises:
        StoreFormatError: The file's length is not that of the settings, or the header counts more
            entries than there can be.
    """
    size = file_size(slot_count, entry_count_max)
    if file.size() != size:
        raise StoreFormatError(
            file.path,
            0,
            f"{slot_count} slots and {entry_count_max} entries in {size} bytes",
            f"{file.size()} bytes",
        )
    begin_ms, end_ms, begin_py, end_py, used, count = HEADER.unpack(file.read(0, HEADER.size))
    if count > entry_count_max:
        raise StoreFormatError(
            file.path, HEADER.offset_of("index_count"), f"at most {entry_count_max}", str(count)
        )
    if count <= 1:
        return IndexHeader()
    return IndexHeader(
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
        begin_phy_offset=begin_py,
        end_phy_offset=end_py,
        hash_slot_count=used,
        index_count=count,
    )
