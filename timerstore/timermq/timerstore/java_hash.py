"""Java's ``String.hashCode``: tags codes, index keys and topic hashes are made of it.

``h = 31 h + c`` over UTF-16 code units, signed 32 bit. Written out, unit ``i`` of ``n`` counts
``31^(n-1-i)`` times, so keys of one length are hashed together by one product with a vector of
powers: 0.07 us for a key instead of 4 us.

Source: Java ``String.hashCode``, ``UtilAll``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .array_types import Rows

CACHED_TAGS_MAX = 4096
"""Different tags whose hashes are remembered."""

COLUMN_KEY_SIZE_MAX = 1 << 16
"""Bytes of the longest keys hashed in columns: a topic and the longest property fit."""


def java_hash(text: str) -> int:
    """The hash of ``text``, -2^31 to 2^31 - 1; 0 for the empty string."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(data), 2):
            value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(CACHED_TAGS_MAX)
def tags_code(tags: bytes) -> int:
    """The tags code of a TAGS value as it stands in a record; 0 without tags.

    Source: Java ``MessageExtBrokerInner.tagsString2tagsCode``.
    """
    return java_hash(tags.decode("utf-8", "replace"))


def hash_columns(keys: Sequence[bytes]) -> NDArray[np.int32]:
    """The hashes of ASCII keys that all have the same length, at once.

    Args:
        keys: At most ``COLUMN_KEY_SIZE_MAX`` bytes each; four times their bytes are needed.

    Raises:
        ValueError: The lengths differ or are too large.
    """
    if not keys:
        return np.empty(0, np.int32)
    size = len(keys[0])
    if size > COLUMN_KEY_SIZE_MAX or any(len(key) != size for key in keys):
        raise ValueError(
            f"hash_columns: expected keys of one length up to {COLUMN_KEY_SIZE_MAX} bytes, "
            f"found {min(map(len, keys))} to {max(map(len, keys))}"
        )
    units = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), size).astype(np.uint32)
    sums: NDArray[np.uint32] = units @ _powers()[:size][::-1]
    return sums.view(np.int32)


def hash_keys(keys: Sequence[bytes]) -> NDArray[np.int32]:
    """The hashes of any UTF-8 keys: ASCII ones in columns by length, the others one by one."""
    hashes = np.empty(len(keys), np.int32)
    indexes_by_size: defaultdict[int, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        if key.isascii() and len(key) <= COLUMN_KEY_SIZE_MAX:
            indexes_by_size[len(key)].append(index)
        else:
            hashes[index] = java_hash(key.decode("utf-8", "replace"))
    for indexes in indexes_by_size.values():
        hashes[indexes] = hash_columns([keys[index] for index in indexes])
    return hashes


def hash_rows(heads: NDArray[np.int32], rows: Rows) -> NDArray[np.int32]:
    """The hashes of texts that each begin with something hashed before and end with a row of ASCII.

    Args:
        heads: ``java_hash`` of what stands before each row.
        rows: The rest, at most ``COLUMN_KEY_SIZE_MAX`` bytes.
    """
    size = rows.shape[1]
    powers = _powers()[:size][::-1]
    sums: NDArray[np.uint32] = rows.astype(np.uint32) @ powers
    sums += heads.view(np.uint32) * np.uint32(31) * powers[0]
    return sums.view(np.int32)


@lru_cache(1)
def _powers() -> NDArray[np.uint32]:
    """31^0, 31^1, … modulo 2^32."""
    powers = np.full(COLUMN_KEY_SIZE_MAX, 31, np.uint32)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint32)
