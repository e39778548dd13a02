"""The log of a replica as it stands on its disk, read without the broker's code for logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import attrs

from timermq.timerstore.record_check import CheckKind, check_record

from ..disks.memory_disk import MemoryDisk

NAMES = re.compile(r"M\d{6}")
"""The names of messages, wherever they stand."""


@attrs.frozen
class LogCopy:
    """A part of a log."""

    start: int
    """Position of its first byte."""
    data: bytes
    """Up to the end of the last whole record."""

    @property
    def end(self) -> int:
        """The position behind its last byte."""
        return self.start + len(self.data)

    def behind(self, position: int) -> LogCopy:
        """The part from a position on."""
        position = max(position, self.start)
        return LogCopy(position, self.data[position - self.start :])

    def names(self) -> set[str]:
        """The names of all messages that its records speak of."""
        return set(NAMES.findall(self.data.decode("latin-1")))


def log_of(disk: MemoryDisk, root: str) -> LogCopy:
    """The log on a disk, from its first segment to its last whole record."""
    directory = f"{root}/commitlog"
    names = [name for name in disk.list_dir(directory) if name.isdecimal()]
    if not names:
        return LogCopy(0, b"")
    start, data, end = int(names[0]), bytearray(), 0
    for name in names:
        with closing(disk.open(f"{directory}/{name}", read_only=True)) as file:
            segment = file.read(0, file.size())
        if len(data) != int(name) - start:
            break
        last = max((at + size for at, size in _walk(segment, int(name))), default=0)
        data += segment
        if last:
            end = int(name) - start + last
    return LogCopy(start, bytes(data[:end]))


def records_in(log: LogCopy, segment_size: int) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each record of a log, whose segments have so many bytes."""
    for begin in range(0, len(log.data), segment_size):
        segment = log.data[begin : begin + segment_size]
        for at, record_size in _walk(segment, log.start + begin):
            yield log.start + begin + at, segment[at : at + record_size]


def _walk(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Place and size of each whole record, from the first one on."""
    at = 0
    while at < len(data):
        found = check_record(data, at, len(data), start + at, check_crc=False)
        if found.kind is not CheckKind.RECORD:
            return
        yield at, found.size
        at += found.size
