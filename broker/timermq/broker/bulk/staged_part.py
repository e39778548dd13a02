"""A part: the file of its blocks, each behind its size (4 bytes, little-endian).

``NAME.staging`` grows by a block with each request. With its last block it is synced, and becomes
``NAME.part`` in one step: a file of that name is whole and durable.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from timermq.remoting.bulk_block import BulkBlockError
from timermq.timerstore.disk import Disk, File

STAGING = ".staging"
WHOLE = ".part"
_SIZE = 4
_ROWS = slice(8, 12)
_CRC = slice(12, 16)
"""Offsets of the rows and of the CRC in a block."""


@attrs.define(eq=False, kw_only=True)
class StagedPart:
    """A part of a job: its file, and how far it is staged."""

    path: str
    """Path of its file without the ending."""
    blocks: int = 0
    rows: int = 0
    size: int = 0
    """Bytes of the file."""
    newest_crc: bytes = b""
    """CRC-32 of the newest block: so one that is sent again is known."""
    has_last: bool = False
    """The last block has arrived."""
    is_whole: bool = False
    """The file is durable, and has its name."""
    topics: set[str] = attrs.Factory(set[str])

    @property
    def file_path(self) -> str:
        """Path of its file: the ending says whether it is whole."""
        return self.path + (WHOLE if self.is_whole else STAGING)

    def repeats(self, number: int, block: bytes) -> bool:
        """Whether this is the newest block once more."""
        return self.blocks > 0 and number == self.blocks - 1 and block[_CRC] == self.newest_crc

    def append(self, disk: Disk, block: bytes, rows: int, topic: str) -> None:
        """Write a block behind the others.

        Raises:
            OSError: The disk did not take it; the part is as before.
        """
        file = disk.open(self.file_path, create=True)
        try:
            file.truncate(self.size)  # what a write that failed has left, or an attempt before
            try:
                file.write(self.size, len(block).to_bytes(_SIZE, "little") + block)
            except BaseException:
                file.truncate(self.size)
                raise
        finally:
            file.close()
        self.blocks += 1
        self.rows += rows
        self.size += _SIZE + len(block)
        self.newest_crc = block[_CRC]
        self.topics.add(topic)

    async def finish(self, disk: Disk) -> None:
        """Make the part durable and whole.

        Raises:
            OSError: The disk refused: the part must be staged again from block 0.
        """
        file = disk.open(self.file_path)
        try:
            await disk.sync(file)
        finally:
            file.close()
        disk.rename(self.path + STAGING, self.path + WHOLE)
        await disk.sync_dir(self.path.rpartition("/")[0])
        self.is_whole = True

    def remove(self, disk: Disk) -> None:
        """Remove its file, whole or not."""
        for ending in (STAGING, WHOLE):
            disk.remove(self.path + ending)


@attrs.frozen(eq=False)
class PlacedBlock:
    """A block in the file of its part."""

    first_row: int
    """Number of its first row in the part."""
    rows: int
    at: int
    """Offset of its start in the file, behind its size."""
    size: int

    def read(self, file: File) -> bytes:
        """Its encoded bytes, ``size`` of them."""
        return file.read(self.at, self.size)


def blocks_in(file: File) -> Iterator[PlacedBlock]:
    """The blocks of a part by their heads alone.

    Raises:
        BulkBlockError: The file ends within a block.
    """
    at, row, end = 0, 0, file.size()
    while at < end:
        head = file.read(at, _SIZE + _CRC.stop)
        size = int.from_bytes(head[:_SIZE], "little")
        rows = int.from_bytes(head[_SIZE:][_ROWS], "little")
        if len(head) < _SIZE + _CRC.stop or at + _SIZE + size > end or not rows:
            raise BulkBlockError(f"block at {at}: expected {size} bytes, found {end - at - _SIZE}")
        yield PlacedBlock(row, rows, at + _SIZE, size)
        at, row = at + _SIZE + size, row + rows


def whole_part(disk: Disk, path: str) -> StagedPart:
    """A part that a process before has finished, by the heads of its blocks.

    Damage is not looked for here; the commit checks every byte.
    """
    part = StagedPart(path=path, has_last=True, is_whole=True)
    file = disk.open(part.file_path, read_only=True)
    try:
        part.size = file.size()
        for block in blocks_in(file):
            part.blocks, part.rows = part.blocks + 1, block.first_row + block.rows
            part.newest_crc = file.read(block.at, _CRC.stop)[_CRC]
    except BulkBlockError:
        pass
    finally:
        file.close()
    return part
