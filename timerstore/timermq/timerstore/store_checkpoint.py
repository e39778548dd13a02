"""``checkpoint``: how far the store was durable, one page of 4096 bytes.

| offset | field |
|---|---|
| 0 | store time of the last durable message of the commit log |
| 8 | store time of the last message whose queue unit is durable |
| 16 | store time up to which the index is durable |
| 24 | position that replicas have flushed (unused here, kept) |
| 32 | confirmed position (unused here, kept) |

Behind them, at 64, stands a block of our own: the position up to which log and queues were durable,
where recovery begins after a crash instead of at the start of a segment. RocketMQ rewrites its
numbers alone, so the block ends in a CRC-32 of these and itself: after another program has served
the store, the block does not count.

An absent file and an all-zero page mean that nothing is known: recovery reads everything. The file
is created by the first start, overwritten in one write, and can be removed while the store is
stopped.

Source: Java ``StoreCheckpoint``.
"""

from __future__ import annotations

import zlib

import attrs

from .disk import Disk, File
from .errors import StoreFormatError
from .layout import Layout

PAGE_SIZE = 4096
"""Bytes of the file, as Java maps it."""

SAFETY_MS = 3000
"""How much older than its timestamps the checkpoint is taken to be, as in Java."""

PAGE = Layout(
    "store checkpoint",
    ">",
    (
        ("physic_msg_timestamp", "q", "store time of the last durable message of the log, ms"),
        ("logics_msg_timestamp", "q", "store time of the last durable queue unit, ms"),
        ("index_msg_timestamp", "q", "store time up to which the index is durable, ms"),
        ("master_flushed_offset", "q", "position that replicas have flushed"),
        ("confirm_phy_offset", "q", "confirmed position"),
    ),
)
assert PAGE.size == 40

EXTENSION_AT = 64
"""Offset of our block in the page."""
EXTENSION_MAGIC = int.from_bytes(b"TMQ1")
EXTENSION_VERSION = 1

EXTENSION = Layout(
    "store checkpoint extension",
    ">",
    (
        ("magic", "I", "TMQ1"),
        ("version", "I", "1"),
        ("durable_py", "q", "log, and queue units of all records before it, are durable"),
        ("crc", "I", "CRC-32 of the five numbers and of this block before it"),
    ),
)


@attrs.define(eq=False, kw_only=True)
class StoreCheckpoint:
    """The page. ``open`` reads it; change the fields, then ``flush``, or ``write`` and sync."""

    physic_msg_timestamp: int = 0
    """Store time of the last durable message of the commit log, ms."""
    logics_msg_timestamp: int = 0
    """Store time of the last message whose queue unit is durable, ms."""
    index_msg_timestamp: int = 0
    """Store time up to which the index is durable, ms."""
    master_flushed_offset: int = 0
    """Position that replicas have flushed; kept as it was read."""
    confirm_phy_offset: int = 0
    """Confirmed position; kept as it was read."""
    durable_py: int | None = None
    """Log, and queue units of all records before this position, are durable; None: not known."""
    _file: File | None = attrs.field(default=None, init=False, repr=False)

    @classmethod
    def open(cls, disk: Disk, path: str, *, read_only: bool = False) -> StoreCheckpoint:
        """Read the page; a missing or empty file reads as all zero.

        Args:
            disk: The disk of the file.
            path: Of the file; its directory exists.
            read_only: Nothing is created; ``write`` must not be called.

        Raises:
            StoreFormatError: The file is there and shorter than its fields.
        """
        if read_only and not disk.exists(path):
            return cls()
        file = disk.open(path, create=not read_only, read_only=read_only)
        try:
            page = file.read(0, PAGE_SIZE)
            if 0 < len(page) < PAGE.size:
                raise StoreFormatError(path, 0, f"{PAGE.size} bytes", f"{len(page)}")
            checkpoint = cls.decode(page) if page else cls()
            if not read_only and len(page) < PAGE_SIZE:
                file.truncate(PAGE_SIZE)
        except (OSError, StoreFormatError):
            file.close()
            raise
        if read_only:
            file.close()
        else:
            checkpoint._file = file
        return checkpoint

    @classmethod
    def decode(cls, page: bytes) -> StoreCheckpoint:
        """Read the numbers of a page, and our block if its CRC is right."""
        numbers = dict(zip(PAGE.names, PAGE.unpack(page), strict=True))
        return cls(**numbers, durable_py=_decode_extension(page))

    @property
    def min_timestamp(self) -> int:
        """Store time before which log and queues are durable for certain, ms."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - SAFETY_MS)

    @property
    def file(self) -> File:
        """The file to sync after ``write``."""
        assert self._file is not None, "opened read only"
        return self._file

    def encode(self) -> bytes:
        """The fields as they stand in the file."""
        head = PAGE.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        )
        if self.durable_py is None:
            return head
        return head.ljust(EXTENSION_AT, b"\0") + _encode_extension(self.durable_py, head)

    def write(self) -> None:
        """Write the fields; durable after the next sync of ``file``.

        Raises:
            OSError: The disk refused.
        """
        self.file.write(0, self.encode())

    async def flush(self, disk: Disk) -> None:
        """Write and sync.

        Raises:
            OSError: The disk refused.

        Cancellation: the page is the old or the new one.
        """
        self.write()
        await disk.sync(self.file)

    def close(self) -> None:
        """Close the file; nothing is written."""
        if self._file is not None:
            self._file.close()


def _encode_extension(durable_py: int, head: bytes) -> bytes:
    values = (EXTENSION_MAGIC, EXTENSION_VERSION, durable_py)
    return EXTENSION.pack(*values, _crc(head, EXTENSION.pack(*values, 0)))


def _decode_extension(page: bytes) -> int | None:
    block = page[EXTENSION_AT : EXTENSION_AT + EXTENSION.size]
    if len(block) < EXTENSION.size:
        return None
    magic, version, durable_py, crc = EXTENSION.unpack(block)
    if (magic, version, crc) != (EXTENSION_MAGIC, EXTENSION_VERSION, _crc(page, block)):
        return None
    return durable_py


def _crc(head: bytes, block: bytes) -> int:
    return zlib.crc32(block[: EXTENSION.offset_of("crc")], zlib.crc32(head[: PAGE.size]))
