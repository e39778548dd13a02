"""A log in segments with seals, written by an earlier process and opened by the next one."""

from __future__ import annotations

from random import Random

import trio

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.seal_page import SECTOR_SIZE, STRETCH_SIZE
from timermq.timerstore.seals import SealMoment

LOG = "/store/log"
SEGMENT_SIZE = 3 * STRETCH_SIZE
SIZE = SEGMENT_SIZE + STRETCH_SIZE + 3 * SECTOR_SIZE + 100
"""Two segments: a whole one, and one that ends within a sector of its second stretch."""
WRITTEN = Random(4).randbytes(SIZE)


def opened(disk: Disk, end: int = SIZE) -> MappedFileQueue:
    """The log as a start finds it."""
    log = MappedFileQueue(disk, LOG, SEGMENT_SIZE, reserve=True, sealed=SealMoment.APPEND)
    log.load()
    log.set_end(end)
    return log


def write(log: MappedFileQueue, at: int, data: bytes) -> None:
    """Append bytes, in pieces where a segment ends."""
    while data:
        size = SEGMENT_SIZE - at % SEGMENT_SIZE
        log.write(at, data[:size])
        at, data = at + size, data[size:]


def flush(log: MappedFileQueue) -> None:
    """Make bytes and seals durable."""

    async def both() -> None:
        await log.flush()
        await log.flush_seals()

    trio.run(both)


def written_log() -> MemoryDisk:
    """A disk with the log of an earlier process."""
    disk = MemoryDisk()
    log = MappedFileQueue(disk, LOG, SEGMENT_SIZE, reserve=True, sealed=SealMoment.APPEND)
    log.load()
    write(log, 0, WRITTEN)
    flush(log)
    log.close()
    return disk


def rot(disk: MemoryDisk, at: int, data: bytes) -> None:
    """Let bytes of the log be others, on the disk."""
    start = at - at % SEGMENT_SIZE
    disk.rot(f"{LOG}/{start:020d}", at - start, data)


def sector_of(at: int) -> int:
    """Position of the sector that a position lies in: segments are whole sectors."""
    return at - at % SECTOR_SIZE
