"""The keys of records: which there are, and reading them from a block of the log in one pass.

A key is found by what the index hashes, ``topic#key``. The keys of nearly all records are taken
from what a put has just written, which need not be read again. All others are read from the log, in
a hot loop as well: a block of neighbouring records is taken out of it in one piece, and of each
record only the lengths and the end of the properties are looked at.

Source: Java ``IndexService.buildIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Rows
from .index_layout import folded, key_hashes
from .java_hash import CACHED_TAGS_MAX, hash_rows, java_hash
from .log_record import is_rollback, store_ms_of
from .message import TRANSACTION_MASK
from .properties import KEYS, KEYS_NAME, KEYS_SEPARATOR, UNIQ_KEY, UNIQ_KEY_NAME, find
from .property_columns import PropertyColumns
from .record import RecordError, record_spans
from .record_layout import (
    BLANK_MAGIC,
    BODY_AT,
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_AT,
    MAGIC_V1,
    V6_BITS,
)

STEP_KEYS_MAX = 4096
"""Keys hashed at a time, whatever the size of the batch: less than a megabyte."""

_PEEK = HEAD.cut("total_size", "magic", "sys_flag", "store_ms", "body_length")

_BLANK_MARK = BLANK_MAGIC.to_bytes(4, signed=True)
_UNIQ_KEY_SIZE = len(UNIQ_KEY)
_END = b"\x02"
_END_BYTE = 2
_SEPARATOR_BYTE = ord(KEYS_SEPARATOR)
_NONE = np.empty(0, np.int64)
_FULL_READ_FLAGS = V6_BITS | int(TRANSACTION_MASK)


def keys_in(properties: bytes) -> list[bytes]:
    """The keys under which a message can be found: its unique key, then the user's."""
    keys: list[bytes] = []
    unique_key = find(properties, UNIQ_KEY_NAME)
    if unique_key:
        keys.append(unique_key)
    user_keys = find(properties, KEYS_NAME) if KEYS_NAME in properties else None
    if user_keys:
        keys += [key for key in user_keys.split(KEYS_SEPARATOR) if key]
    return keys


def index_text(topic: bytes, key: bytes) -> bytes:
    """The bytes hashed for a key; broken UTF-8 as Java reads it."""
    return _as_java_reads(b"%b#%b" % (topic, key))


def _as_java_reads(text: bytes) -> bytes:
    return text if text.isascii() else text.decode("utf-8", "replace").encode()


@lru_cache(CACHED_TAGS_MAX)
def _head_hash(topic: str) -> int:
    return java_hash(f"{topic}#")


class _TopicHeads(dict[str, bytes]):
    """The prefix of the keys of a topic."""

    def __missing__(self, topic: str) -> bytes:
        head = self[topic] = topic.encode() + b"#"
        return head


@attrs.frozen(eq=False)
class FreshRecords:
    """Records that were written together, as far as the index wants to know them.

    No rollback of a transaction is among them.
    """

    start: int
    """Position of the first one."""
    end: int
    """Position in the log behind them."""
    store_ms: int
    topics: Sequence[str]
    properties: Sequence[bytes]
    offsets_py: Sequence[int]

    def __len__(self) -> int:
        return len(self.properties)

    @property
    def size(self) -> int:
        """Bytes of the log that they stand in."""
        return self.end - self.start

    def parts(self, count_max: int) -> Iterator[FreshRecords]:
        """The same in parts of at most ``count_max`` records."""
        for at in range(0, len(self), count_max):
            behind = at + count_max
            offsets_py = self.offsets_py[at:behind]
            yield FreshRecords(
                int(offsets_py[0]) if at else self.start,
                int(self.offsets_py[behind]) if behind < len(self) else self.end,
                self.store_ms,
                self.topics[at:behind],
                self.properties[at:behind],
                offsets_py,
            )


@attrs.frozen(eq=False)
class FreshColumns:
    """Records that were written together: a unique key of one size, and perhaps one key more."""

    start: int
    """Position of the first one."""
    end: int
    """Position in the log behind them."""
    store_ms: int
    heads: NDArray[np.int32]
    """Hashes of what stands before the key of each: its topic."""
    columns: tuple[Rows, ...]
    """The unique keys, and the others where there are any."""
    offsets_py: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        properties: PropertyColumns,
        topics: Sequence[str],
        offsets_py: NDArray[np.int64],
        *,
        end: int,
        store_ms: int,
    ) -> FreshColumns | None:
        """None when they have several other keys, or none, or some that are no ASCII."""
        keys = properties.value(UNIQ_KEY_NAME)
        others = properties.value(KEYS_NAME)
        if keys is None or others is None or not keys.size:
            return None
        if others.size and (others == _SEPARATOR_BYTE).any():
            return None
        columns = tuple(one.copy() for one in (keys, others) if one.size)
        if max(int(one.max()) for one in columns) > 127:
            return None
        if topics.count(topics[0]) == len(topics):
            heads = np.full(len(topics), _head_hash(topics[0]), np.int32)
        else:
            heads = np.array(list(map(_head_hash, topics)), np.int32)
        return cls(int(offsets_py[0]), end, store_ms, heads, columns, offsets_py)

    def __len__(self) -> int:
        return len(self.offsets_py)

    @property
    def size(self) -> int:
        """Bytes of the log that they stand in."""
        return self.end - self.start

    def hashed(self) -> KeyHashes:
        """The hashes of all keys, with position and store time of each record."""
        hashes = np.stack([folded(hash_rows(self.heads, one)) for one in self.columns], axis=1)
        offsets_py = np.repeat(self.offsets_py, len(self.columns))
        return KeyHashes(hashes.reshape(-1), offsets_py, np.full(len(offsets_py), self.store_ms))


@attrs.frozen(eq=False)
class KeyHashes:
    """The hashes of keys, a row each, as the index takes them."""

    hashes: NDArray[np.int64]
    offsets_py: NDArray[np.int64]
    """Positions of the messages, ascending."""
    stores_ms: NDArray[np.int64]
    """Their store times."""

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, rows: slice | NDArray[np.bool_]) -> KeyHashes:
        return KeyHashes(self.hashes[rows], self.offsets_py[rows], self.stores_ms[rows])


@attrs.frozen(eq=False, kw_only=True)
class FreshHashes:
    """Records that were written together, of whose keys only hashes are left."""

    start: int
    """Position of the first one."""
    end: int
    """Position in the log behind them."""
    count: int
    """The number of the records."""
    keys: KeyHashes

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        """Bytes of the log that they stand in."""
        return self.end - self.start

    def hashed(self) -> KeyHashes:
        """The hashes of all keys."""
        return self.keys


Fresh = FreshRecords | FreshColumns | FreshHashes


@attrs.define(eq=False)
class KeyColumns:
    """The keys of some records, as columns of one row a key."""

    texts: list[bytes] = attrs.field(factory=list[bytes])
    offsets_py: list[int] = attrs.field(factory=list[int])
    """Positions of the messages, ascending."""
    stores_ms: list[int] = attrs.field(factory=list[int])
    """Their store times."""

    _before: list[KeyHashes] = attrs.field(factory=list[KeyHashes], init=False)
    """Keys before these that are hashed already."""

    def hashed(self) -> KeyHashes:
        """The hashes of all added keys, for the index."""
        self._hash()
        parts = self._before
        return KeyHashes(
            np.concatenate([_NONE, *[part.hashes for part in parts]]),
            np.concatenate([_NONE, *[part.offsets_py for part in parts]]),
            np.concatenate([_NONE, *[part.stores_ms for part in parts]]),
        )

    def _hash(self) -> None:
        """Hash the texts that are here, a bounded number at a time."""
        for at in range(0, len(self.texts), STEP_KEYS_MAX):
            end = at + STEP_KEYS_MAX
            self._before.append(
                KeyHashes(
                    key_hashes(self.texts[at:end]),
                    np.array(self.offsets_py[at:end], np.int64),
                    np.array(self.stores_ms[at:end], np.int64),
                )
            )
        self.texts, self.offsets_py, self.stores_ms = [], [], []

    def add_record(self, data: bytes, phy_offset: int) -> bool:
        """Add the keys of one record; False when it is none."""
        try:
            _, topic_at, topic_end, end = record_spans(data)
        except RecordError:
            return False
        if not is_rollback(data):
            topic, store_ms = data[topic_at:topic_end], store_ms_of(data)
            for key in keys_in(data[topic_end + 2 : end]):
                self.texts.append(index_text(topic, key))
                self.offsets_py.append(phy_offset)
                self.stores_ms.append(store_ms)
        return True

    def add_fresh(self, fresh: Fresh) -> None:
        """Add the keys of records that were just written."""
        if isinstance(fresh, FreshRecords):
            self._add_fresh_records(fresh)
        else:
            self._hash()
            self._before.append(fresh.hashed())

    def _add_fresh_records(self, fresh: FreshRecords) -> None:
        texts, offsets, heads = self.texts, self.offsets_py, _TopicHeads()
        first = len(texts)
        has_keys = KEYS in b"".join(fresh.properties)
        rows = zip(fresh.topics, fresh.properties, fresh.offsets_py, strict=True)
        for topic, properties, offset_py in rows:
            name_at = properties.rfind(UNIQ_KEY)
            key_at = name_at + _UNIQ_KEY_SIZE
            key_end = properties.find(_END, key_at)
            # The last of several counts. Names that end like it and empty keys: one by one.
            if (
                0 <= name_at < key_at < key_end
                and (name_at == 0 or properties[name_at - 1] == _END_BYTE)
                and not (has_keys and KEYS in properties)
            ):
                texts.append(heads[topic] + properties[key_at:key_end])
                offsets.append(offset_py)
            else:
                keys = keys_in(properties)
                texts += [heads[topic] + key for key in keys]
                offsets += [offset_py] * len(keys)
        if not b"".join(texts[first:]).isascii():
            texts[first:] = [_as_java_reads(text) for text in texts[first:]]
        self.stores_ms += [fresh.store_ms] * (len(texts) - first)

    def add_block(self, data: bytes, phy_offset: int, count_max: int) -> tuple[int, bool]:
        """Add the keys of the records that are whole in a block.

        Args:
            data: Bytes of the log from a record on.
            phy_offset: Position of the block.
            count_max: Most records.

        Returns:
            Bytes of the block that are done, and whether a blank follows them.
        """
        texts, offsets, stores = self.texts, self.offsets_py, self.stores_ms
        peek, find_last, find_next = _PEEK.unpack_from, data.rfind, data.find
        has_keys = KEYS in data
        at, end = 0, len(data)
        for _ in range(count_max):
            if end - at < FIXED_SIZE_V1:
                return at, data[at + MAGIC_AT : at + MAGIC_AT + 4] == _BLANK_MARK
            peeked: tuple[int, int, int, int, int] = peek(data, at)
            size, magic, sys_flag, store_ms, body_size = peeked
            if magic == BLANK_MAGIC:
                return at, True
            if not FIXED_SIZE_V1 <= size <= end - at:
                break
            next_at = at + size
            if (
                magic == MAGIC_V1
                and not sys_flag & _FULL_READ_FLAGS
                and 0 <= body_size <= size - FIXED_SIZE_V1
            ):
                topic_at = at + BODY_AT + body_size + 1
                topic_end = topic_at + data[topic_at - 1]
                # The last of several counts. Names that end like it and empty keys: one by one.
                name_at = find_last(UNIQ_KEY, topic_end + 2, next_at)
                key_at = name_at + _UNIQ_KEY_SIZE
                key_end = find_next(_END, key_at, next_at)
                text = data[topic_at:topic_end] + b"#" + data[key_at:key_end]
                if (
                    topic_end < name_at
                    and key_at < key_end
                    and (data[name_at - 1] == _END_BYTE or name_at == topic_end + 2)
                    and text.isascii()
                    and not (has_keys and KEYS in data[topic_end:next_at])
                    and topic_end + 2 + (data[topic_end] << 8 | data[topic_end + 1]) == next_at
                ):
                    texts.append(text)
                    offsets.append(phy_offset + at)
                    stores.append(store_ms)
                    at = next_at
                    continue
            if not self.add_record(data[at:next_at], phy_offset + at):
                break
            at = next_at
        return at, False
