"""A block: messages of one topic as columns, the body of a BULK_STAGE (``bulk``).

A block is read and written without looking at a single row, from columns as Arrow has them: all
values of a column one after the other, and their sizes. All numbers are little-endian.

==================  ==============  ============================================================
field               bytes           meaning
==================  ==============  ============================================================
magic               4               ``TMQB``
version             1               1
names               1               columns of properties, 0 to ``NAMES_MAX``
topic size          2               bytes of the topic
rows                4               1 to ``ROWS_MAX``
crc                 4               CRC-32 of all before it, and of all behind it
topic                               UTF-8
deliver_ms          8 a row         the moment, epoch ms; 0: at once
queue id            4 a row         -1: the broker chooses
body sizes          4 a row
a name each         2 + size        size and UTF-8 of a property's name, before its sizes
its value sizes     4 a row         0: the row has no such property
bodies                              one after the other
values                              the same, a column after the other
==================  ==============  ============================================================

The unique key is not in it: the broker makes it of job, part and row, so that it stays the same
however often a block is sent.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from zlib import crc32

import attrs
import numpy as np
from numpy.typing import NDArray

from .codes import ResponseCode
from .errors import RemoteProtocolError

BLOCK_SIZE_MAX = 4 << 20
"""Bytes of a block, unless a single message is larger: some milliseconds of a broker's time."""
ROWS_MAX = 65_536
NAMES_MAX = 64
NAME_SIZE_MAX = 255
"""Bytes of a property's name."""
TOPIC_SIZE_MAX = 255
"""Bytes of a topic; which names are legal says the broker when it takes the rows."""
ANY_QUEUE = -1
FORBIDDEN_NAMES = frozenset({"UNIQ_KEY", "TRAN_MSG"})
"""Names that a block may not bring: the broker makes the key, and no row begins a transaction."""

_MAGIC = b"TMQB"
_VERSION = 1
_HEAD = struct.Struct("<4sBBHII")
_CRC_AT = _HEAD.size - 4
_NAME_SIZE = struct.Struct("<H")
_MOMENT: np.dtype[np.int64] = np.dtype("<i8")
_QUEUE: np.dtype[np.int32] = np.dtype("<i4")
_SIZE: np.dtype[np.uint32] = np.dtype("<u4")
_NAME = re.compile(r"[^\x00-\x1f\x7f]+")

Moments = NDArray[np.int64]
QueueIds = NDArray[np.int32]
Sizes = NDArray[np.uint32]
_Number = TypeVar("_Number", bound=np.generic)


class BulkBlockError(RemoteProtocolError):
    """Bytes that are no block, or columns that cannot be one; the text names the field."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.MESSAGE_ILLEGAL, f"BULK_BLOCK: {reason}")


@attrs.frozen(eq=False)
class BulkColumn:
    """A value of some bytes for each row."""

    data: bytes | memoryview
    """All of them, one after the other."""
    sizes: Sizes
    """Bytes of each."""

    @classmethod
    def of(cls, values: Sequence[bytes]) -> BulkColumn:
        """The column of some values."""
        return cls(b"".join(values), np.array([len(one) for one in values], np.uint32))

    def each(self) -> list[bytes]:
        """The values one by one."""
        data, ends = bytes(self.data), np.cumsum(self.sizes, dtype=np.int64)
        places = zip((ends - self.sizes).tolist(), ends.tolist(), strict=True)
        return [data[start:end] for start, end in places]


@attrs.frozen(eq=False, kw_only=True)
class BulkBlock:
    """Messages of one topic, at least one; columns of the same length."""

    topic: str
    deliver_ms: Moments
    """Epoch milliseconds; 0 and whatever is past: at once."""
    queue_ids: QueueIds
    """``ANY_QUEUE``: in turns."""
    bodies: BulkColumn
    properties: Mapping[str, BulkColumn]
    """By name, as KEYS, TAGS or a name of the producer's own; an empty value: no such property."""

    def __len__(self) -> int:
        return len(self.deliver_ms)

    @classmethod
    def of(
        cls,
        topic: str,
        bodies: BulkColumn,
        *,
        deliver_ms: Moments | None = None,
        queue_ids: QueueIds | None = None,
        properties: Mapping[str, BulkColumn] | None = None,
    ) -> BulkBlock:
        """A block with what is usual where nothing is said: at once, any queue, no properties."""
        rows = len(bodies.sizes)
        return cls(
            topic=topic,
            deliver_ms=np.zeros(rows, np.int64) if deliver_ms is None else deliver_ms,
            queue_ids=np.full(rows, ANY_QUEUE, np.int32) if queue_ids is None else queue_ids,
            bodies=bodies,
            properties=properties or {},
        )

    def encode(self) -> bytes:
        """The bytes of the block.

        Raises:
            BulkBlockError: A limit, a name or a length is not as the table above says.
        """
        rows, topic = len(self), self.topic.encode()
        _check_counts(rows, len(self.properties), len(topic))
        pieces: list[bytes | memoryview] = [
            topic,
            _column("deliver_ms", self.deliver_ms, _MOMENT, rows),
            _column("queue id", self.queue_ids, _QUEUE, rows),
            _sizes("bodies", self.bodies, rows),
        ]
        for name, values in self.properties.items():
            _check_name(name)
            encoded = name.encode()
            pieces += _NAME_SIZE.pack(len(encoded)), encoded, _sizes(name, values, rows)
        pieces += [self.bodies.data, *(values.data for values in self.properties.values())]
        behind = b"".join(pieces)
        head = _HEAD.pack(_MAGIC, _VERSION, len(self.properties), len(topic), rows, 0)[:_CRC_AT]
        return b"%b%b%b" % (head, crc32(behind, crc32(head)).to_bytes(4, "little"), behind)

    @classmethod
    def decode(cls, data: bytes) -> BulkBlock:
        """Read a block; its columns are views of ``data``.

        Raises:
            BulkBlockError: It is none, or a byte of it has changed.
        """
        names, topic_size, rows = block_head(data)
        reader = _Reader(data, _HEAD.size)
        topic = _text("topic", reader.take(topic_size))
        deliver_ms = reader.numbers(_MOMENT, rows)
        queue_ids = reader.numbers(_QUEUE, rows)
        body_sizes = reader.numbers(_SIZE, rows)
        sizes: dict[str, Sizes] = {}
        for _ in range(names):
            name = _text("name", reader.take(_NAME_SIZE.unpack(reader.take(2))[0]))
            _check_name(name)
            if name in sizes:
                raise BulkBlockError(f"property {name!a} stands twice")
            sizes[name] = reader.numbers(_SIZE, rows)
        bodies = BulkColumn(reader.take(_sum(body_sizes)), body_sizes)
        properties = {name: BulkColumn(reader.take(_sum(one)), one) for name, one in sizes.items()}
        if reader.left:
            raise BulkBlockError(f"{reader.left} bytes behind the last column")
        return cls(
            topic=topic,
            deliver_ms=deliver_ms,
            queue_ids=queue_ids,
            bodies=bodies,
            properties=properties,
        )

    def slice(self, first: int, last: int) -> BulkBlock:
        """The rows from ``first`` to before ``last``, as views."""
        return BulkBlock(
            topic=self.topic,
            deliver_ms=self.deliver_ms[first:last],
            queue_ids=self.queue_ids[first:last],
            bodies=_slice(self.bodies, first, last),
            properties={
                name: _slice(values, first, last) for name, values in self.properties.items()
            },
        )

    def parts(self, *, size_max: int = BLOCK_SIZE_MAX) -> Iterator[BulkBlock]:
        """The block in blocks of at most ``size_max`` bytes and ``ROWS_MAX`` rows.

        A row that is larger by itself has a block of its own.
        """
        columns = (self.bodies, *self.properties.values())
        fixed = _MOMENT.itemsize + _QUEUE.itemsize + _SIZE.itemsize * len(columns)
        ends = np.cumsum(fixed + np.sum([one.sizes for one in columns], axis=0, dtype=np.int64))
        names = sum(_NAME_SIZE.size + len(name.encode()) for name in self.properties)
        room = size_max - _HEAD.size - len(self.topic.encode()) - names
        first = 0
        while first < len(self):
            start = int(ends[first - 1]) if first else 0
            fits = int(np.searchsorted(ends, start + room, side="right"))
            last = min(max(fits, first + 1), first + ROWS_MAX)
            yield self.slice(first, last)
            first = last


def block_head(data: bytes) -> tuple[int, int, int]:
    """Columns of properties, bytes of the topic, and rows of a block; its CRC is compared.

    Raises:
        BulkBlockError: It is none, or a byte of it has changed.
    """
    if len(data) < _HEAD.size:
        raise BulkBlockError(f"expected at least {_HEAD.size} bytes, found {len(data)}")
    magic, version, names, topic_size, rows, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise BulkBlockError(
            f"expected {_MAGIC!r} and version {_VERSION}, found {magic!r} and {version}"
        )
    found = crc32(memoryview(data)[_HEAD.size :], crc32(data[:_CRC_AT]))
    if crc != found:
        raise BulkBlockError(f"expected the CRC {crc:08x}, found {found:08x}: bytes have changed")
    _check_counts(rows, names, topic_size)
    return names, topic_size, rows


class _Reader:
    """The rest of some bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> memoryview:
        if size > self.left:
            raise BulkBlockError(f"expected {size} bytes at {self._at}, found {self.left}")
        self._at += size
        return memoryview(self._data)[self._at - size : self._at]

    def numbers(self, kind: np.dtype[_Number], rows: int) -> NDArray[_Number]:
        return np.frombuffer(self.take(kind.itemsize * rows), kind)


def _check_counts(rows: int, names: int, topic_size: int) -> None:
    for what, found, least, most in (
        ("rows", rows, 1, ROWS_MAX),
        ("columns of properties", names, 0, NAMES_MAX),
        ("bytes of the topic", topic_size, 1, TOPIC_SIZE_MAX),
    ):
        if not least <= found <= most:
            raise BulkBlockError(f"{what}: expected {least} to {most}, found {found}")


def _check_name(name: str) -> None:
    if name in FORBIDDEN_NAMES:
        raise BulkBlockError(f"property {name}: no row brings it")
    if not _NAME.fullmatch(name) or len(name.encode()) > NAME_SIZE_MAX:
        raise BulkBlockError(
            f"property {name[:64]!a}: expected a name of 1 to {NAME_SIZE_MAX} bytes without "
            "control characters"
        )


def _column(
    what: str, numbers: NDArray[np.generic], kind: np.dtype[np.generic], rows: int
) -> bytes:
    if len(numbers) != rows:
        raise BulkBlockError(f"{what}: expected {rows} rows, found {len(numbers)}")
    return numbers.astype(kind, copy=False).tobytes()


def _sizes(what: str, column: BulkColumn, rows: int) -> bytes:
    found = _sum(column.sizes)
    if found != len(column.data):
        raise BulkBlockError(f"{what}: expected {found} bytes, found {len(column.data)}")
    return _column(what, column.sizes, _SIZE, rows)


def _sum(sizes: NDArray[np.generic]) -> int:
    return int(sizes.sum(dtype=np.int64))


def _slice(column: BulkColumn, first: int, last: int) -> BulkColumn:
    start = _sum(column.sizes[:first])
    sizes = column.sizes[first:last]
    return BulkColumn(memoryview(column.data)[start : start + _sum(sizes)], sizes)


def _text(what: str, data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BulkBlockError(f"{what}: expected UTF-8: {error.reason}") from None
