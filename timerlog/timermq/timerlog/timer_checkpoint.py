"""The timer checkpoint: how far reading, enqueueing and syncing had come.

``config/timercheck``, one page of 4096 bytes, written whole with one write and then synced;
RocketMQ's seven numbers at its head, our block behind them, zeros otherwise. All of it lies in the
first 512 bytes, which a disk writes whole or not at all. A missing or empty file is all zero.

RocketMQ maps the page and writes only its numbers, so our block stays behind when it has served the
store in between. The block therefore ends in a CRC-32 of those numbers and itself. When it is
wrong, ``extension`` is None: the numbers hold, the block does not.

Source: Java ``TimerCheckpoint``.
"""

from __future__ import annotations

import zlib

import attrs

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.flipped_bit import flipped_bit, repaired
from timermq.timerstore.layout import Layout

CHECKPOINT_PATH = "config/timercheck"
"""Where it is below the store's directory."""

PAGE_SIZE = 4096

CHECKPOINT = Layout(
    "timer checkpoint",
    ">",
    (
        ("last_read_time_ms", "q", "slots before it have been delivered"),
        ("last_timer_log_flush_pos", "q", "units before it are durable, and in the wheel file"),
        ("last_timer_queue_offset", "q", "entries of the timer topic before it have units"),
        ("master_timer_queue_offset", "q", "the same on the master; equal here"),
        ("state_version", "q", "data version: the epoch in which its broker leads, else 0"),
        ("timestamp", "q", "data version: last change of read time or queue offset, epoch ms"),
        ("counter", "q", "data version: number of such changes"),
    ),
)
assert CHECKPOINT.size == 56

EXTENSION_AT = 64
"""Offset of our block in the page."""

EXTENSION_MAGIC = int.from_bytes(b"TMQ1", "big")
EXTENSION_VERSION = 1

EXTENSION = Layout(
    "timer checkpoint extension",
    ">",
    (
        ("magic", "I", "TMQ1"),
        ("version", "I", "1"),
        ("precision_ms", "q", "precision of the wheel file"),
        ("scan_py", "q", "deliveries of unread slots stand at or behind it in the commit log"),
        ("crc", "I", "CRC-32 of the seven numbers and of this block before it"),
    ),
)
assert EXTENSION.size == 28
_NUMBERS_END = EXTENSION_AT + EXTENSION.size
assert _NUMBERS_END <= 512


@attrs.frozen(kw_only=True)
class CheckpointExtension:
    """The values of our block of the page."""

    precision_ms: int
    """Width of a slot of the wheel file."""
    scan_py: int
    """Position from which recovery reads the commit log to learn what was delivered."""


@attrs.frozen(kw_only=True)
class DurablePositions:
    """The positions of a recovery that found the checkpoint as it is on the disk."""

    read_ms: int
    queue_offset: int
    scan_py: int


@attrs.define(eq=False, kw_only=True)
class TimerCheckpoint:
    """The page. ``update``, ``write``, the disk's sync and ``mark_durable`` make it durable."""

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0
    extension: CheckpointExtension | None = None
    """None: absent, damaged, or RocketMQ has written since."""
    durable: DurablePositions | None = attrs.field(default=None, init=False)
    """As of the page that was found, or was synced last; None: recovery would read both logs."""
    _file: File | None = attrs.field(default=None, init=False, repr=False)

    @classmethod
    def open(cls, disk: Disk, path: str, *, read_only: bool = False) -> TimerCheckpoint:
        """Read the checkpoint; a missing file is created empty, which reads as all zero.

        Args:
            disk: The disk of the file.
            path: Of the file; its directory exists.
            read_only: Nothing is created.

        Raises:
            StoreFormatError: The file is longer than a page, or ends within the numbers.
        """
        if read_only and not disk.exists(path):
            return cls()
        created = not disk.exists(path)
        file = disk.open(path, create=not read_only, read_only=read_only)
        try:
            if created:
                disk.sync_dir_now(path.rpartition("/")[0])
            size, page = file.size(), file.read(0, PAGE_SIZE)
            # A page that ends behind all numbers has lost nothing. A part of it without a number
            # was being reserved, and never written.
            if size > PAGE_SIZE or (size < _NUMBERS_END and any(page)):
                raise StoreFormatError(path, size, f"a page of {PAGE_SIZE} bytes", f"{size}")
            checkpoint = cls.decode(page.ljust(PAGE_SIZE, b"\0"))
        except (OSError, StoreFormatError):
            file.close()
            raise
        checkpoint._file = file
        checkpoint.mark_durable()
        return checkpoint

    @classmethod
    def decode(cls, page: bytes) -> TimerCheckpoint:
        """Read a page; a single flipped bit is put right.

        The extension is checked. The seven numbers cannot be: RocketMQ writes them alone.
        """
        page = _repaired(page)
        numbers = dict(zip(CHECKPOINT.names, CHECKPOINT.unpack(page), strict=True))
        return cls(**numbers, extension=_decode_extension(page))

    def encode(self) -> bytes:
        """The page as it is written, ``PAGE_SIZE`` bytes."""
        head = CHECKPOINT.pack(*(getattr(self, name) for name in CHECKPOINT.names))
        block = b"" if self.extension is None else _encode_extension(self.extension, head)
        return (head.ljust(EXTENSION_AT, b"\0") + block).ljust(PAGE_SIZE, b"\0")

    @property
    def file(self) -> File:
        """The open file, for the disk's sync."""
        assert self._file is not None, "a checkpoint opened read only without a file has no file"
        return self._file

    def update(
        self,
        *,
        last_read_time_ms: int,
        last_timer_log_flush_pos: int,
        last_timer_queue_offset: int,
        scan_py: int,
        precision_ms: int,
        now_ms: int,
    ) -> None:
        """Take new values; the data version counts a change of read time or queue offset.

        Source: Java ``TimerMessageStore.prepareTimerCheckPoint``.
        """
        before = (self.last_read_time_ms, self.master_timer_queue_offset)
        self.last_read_time_ms = last_read_time_ms
        self.last_timer_log_flush_pos = last_timer_log_flush_pos
        self.last_timer_queue_offset = last_timer_queue_offset
        self.master_timer_queue_offset = last_timer_queue_offset
        if before != (last_read_time_ms, last_timer_queue_offset):
            self.timestamp = now_ms
            self.counter += 1
        self.extension = CheckpointExtension(precision_ms=precision_ms, scan_py=scan_py)

    def reserve(self) -> None:
        """Take the room of the page, before anything relies on its being written.

        Raises:
            OSError: The disk is full; the page is as it was.
        """
        self.file.allocate(PAGE_SIZE)

    def clear(self) -> None:
        """Know nothing, as without a file."""
        self.last_read_time_ms = self.last_timer_log_flush_pos = 0
        self.last_timer_queue_offset = self.master_timer_queue_offset = 0
        self.extension = None

    def write(self) -> None:
        """Write the page; the caller syncs ``file``.

        Raises:
            OSError: The disk refused.
        """
        self.file.write(0, self.encode())

    def mark_durable(self) -> None:
        """The caller has synced the page as it was written last."""
        extension = self.extension
        self.durable = None
        if extension is not None or self.last_read_time_ms > 0:
            self.durable = DurablePositions(
                read_ms=self.last_read_time_ms,
                queue_offset=self.last_timer_queue_offset,
                scan_py=0 if extension is None else extension.scan_py,
            )

    def close(self) -> None:
        """Close the file; nothing is written."""
        if self._file is not None:
            self._file.close()


def _repaired(page: bytes) -> bytes:
    """The page as it was, if one bit of what our checksum covers is another."""
    head, block = page[: CHECKPOINT.size], page[EXTENSION_AT : EXTENSION_AT + EXTENSION.size]
    covered = head + block[: EXTENSION.offset_of("crc")]
    found = flipped_bit(covered, int.from_bytes(block[EXTENSION.offset_of("crc") :]))
    if found is None:
        return page
    offset, bit = found
    return repaired(page, offset if offset < len(head) else offset - len(head) + EXTENSION_AT, bit)


def _encode_extension(extension: CheckpointExtension, head: bytes) -> bytes:
    values = (EXTENSION_MAGIC, EXTENSION_VERSION, extension.precision_ms, extension.scan_py)
    return EXTENSION.pack(*values, _crc(head, EXTENSION.pack(*values, 0)))


def _decode_extension(page: bytes) -> CheckpointExtension | None:
    magic, version, precision_ms, scan_py, crc = EXTENSION.unpack(page, EXTENSION_AT)
    block = page[EXTENSION_AT : EXTENSION_AT + EXTENSION.size]
    if (magic, version, crc) != (EXTENSION_MAGIC, EXTENSION_VERSION, _crc(page, block)):
        return None
    return CheckpointExtension(precision_ms=precision_ms, scan_py=scan_py)


def _crc(head: bytes, block: bytes) -> int:
    return zlib.crc32(block[: EXTENSION.offset_of("crc")], zlib.crc32(head[: CHECKPOINT.size]))
