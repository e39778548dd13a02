"""Reads a commit log by the layout in RocketMQ's sources, with no code of the product.

What the judge takes as a fact stands in records: what was put, cancelled, moved, rolled,
quarantined and what has arrived. A record counts when it is whole: position, lengths, checksum of
the body, no zero among its properties.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection

import attrs

from timermq.timerstore.disk import Disk

HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")
UNIT = struct.Struct(">qiq")
"""Of a queue: position, size, hash of the tags."""
FILLER_SIZE = 0x7FFFFFFF
"""In a unit before the first message of a queue whose older messages are gone."""
MAGIC = -626843481
BLANK_MAGIC = -875286124
NAME_DIGITS = 20
"""Digits of a segment's name, which is the position that it begins at."""

TIMERS = "rmq_sys_wheel_timer"
QUARANTINE = "rmq_sys_TIMERMQ_QUARANTINE"
HOLES = "rmq_sys_hole"


@attrs.frozen(eq=False)
class LogRecord:
    """One whole record of the log, as it was read."""

    position: int
    size: int
    topic: str
    queue_offset: int
    store_ms: int
    origin: int | None
    """Position of the record that it ends; None when it ends none."""
    body: bytes
    properties: dict[str, str]
    digest: int
    """Checksum of all its bytes."""

    @property
    def end(self) -> int:
        """Position in the log behind the record."""
        return self.position + self.size

    @property
    def unique_key(self) -> str:
        """The unique key of its message."""
        return self.properties.get("UNIQ_KEY", "")

    @property
    def name(self) -> str:
        """The name of its message; that of a delete is none."""
        return self.properties.get("LETTER", "")

    def number(self, key: str) -> int | None:
        """A property that is a number; None without it."""
        value = self.properties.get(key)
        return None if value is None else int(value)

    @property
    def is_delete(self) -> bool:
        """Whether it takes another one back."""
        return "TIMER_DEL_UNIQKEY" in self.properties

    @property
    def fills_hole(self) -> bool:
        """Whether a repair has put it where something was lost; its topic may be cut short."""
        return "TIMERMQ_LOST" in self.properties or HOLES.startswith(self.topic)


@attrs.frozen(eq=False)
class Log:
    """All records of a log that were ever whole, in its order."""

    records: list[LogRecord]
    start: int
    """Where the oldest segment begins that is still there."""
    end: int
    """Where whole records end."""

    def present(self) -> list[LogRecord]:
        """Records that are still there."""
        return [one for one in self.records if one.position >= self.start]


class LogReader:
    """Reads the log of one store again and again, and remembers what was removed.

    Args:
        disk: Where the store is.
        directory: The log's.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.damaged: set[int] = set()
        """Positions of records whose bodies were damaged on purpose: they count as whole."""
        self.removed_count = 0
        """Segments that were removed."""
        self._disk = disk
        self._directory = directory
        self._removed: dict[int, list[LogRecord]] = {}

    def note_removal(self, path: str) -> None:
        """A segment is about to be removed."""
        if path.startswith(f"{self._directory}/"):
            start = int(path[-NAME_DIGITS:])
            self._removed[start], _ = read_segment(start, _content(self._disk, path), self.damaged)
            self.removed_count += 1

    def read(self) -> Log:
        """The log as it is, with what was removed before it."""
        names = self._disk.list_dir(self._directory)
        start = end = int(names[0]) if names else 0
        records: list[LogRecord] = []
        for segment in sorted(one for one in self._removed if one < start):
            records += self._removed[segment]
        for name in names:
            if int(name) != end:
                break
            content = _content(self._disk, f"{self._directory}/{name}")
            found, is_full = read_segment(int(name), content, self.damaged)
            records += found
            end = int(name) + len(content) if is_full else found[-1].end if found else end
            if not is_full:
                break
        return Log(records, start, end)


def read_segment(start: int, data: bytes, damaged: Collection[int]) -> tuple[list[LogRecord], bool]:
    """Whole records from the start of a segment on, and whether they reach to its end."""
    records: list[LogRecord] = []
    at = 0
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">ii", data, at)
        if magic == BLANK_MAGIC and size == len(data) - at:
            return records, True
        if magic != MAGIC or not HEAD.size <= size <= len(data) - at:
            return records, False
        record = read_record(data[at : at + size], start + at, damaged)
        if record is None:
            return records, False
        records.append(record)
        at += size
    return records, at == len(data)


def read_record(data: bytes, position: int, damaged: Collection[int]) -> LogRecord | None:
    """One record; None when it is not whole.

    Args:
        data: Its bytes.
        position: Where it stands.
        damaged: Records whose bodies do not fit their checksums, nor do those of their copies.
    """
    fields: tuple[int, ...] = HEAD.unpack_from(data)
    _, _, crc, _, _, queue_offset, stated, _, _, _, store_ms, _, _, origin, body_size = fields
    topic_at = HEAD.size + body_size
    if stated != position or body_size < 0 or topic_at >= len(data):
        return None
    body = data[HEAD.size : topic_at]
    properties_at = topic_at + 1 + data[topic_at]
    properties = data[properties_at + 2 :]
    if int.from_bytes(data[properties_at : properties_at + 2]) != len(properties):
        return None
    topic = data[topic_at + 1 : properties_at]
    if 0 in topic or 0 in properties:
        return None
    is_known = position in damaged or -1 - origin in damaged
    if zlib.crc32(body) & 0x7FFFFFFF != crc and not is_known:
        return None
    pairs = (
        piece.partition("\x01") for piece in properties.decode("utf-8", "replace").split("\x02")
    )
    return LogRecord(
        position=position,
        size=len(data),
        topic=topic.decode("utf-8", "replace"),
        queue_offset=queue_offset,
        store_ms=store_ms,
        origin=-1 - origin if origin < 0 else None,
        body=body,
        properties={name: value for name, _, value in pairs if name},
        digest=zlib.crc32(data),
    )


def read_queue(disk: Disk, directory: str) -> dict[int, int]:
    """What a queue shows: queue offset to the position of its record."""
    shown: dict[int, int] = {}
    for name in disk.list_dir(directory):
        content = _content(disk, f"{directory}/{name}")
        for at in range(0, len(content), UNIT.size):
            position, size, _ = UNIT.unpack_from(content, at)
            if size not in (0, FILLER_SIZE):
                shown[(int(name) + at) // UNIT.size] = position
    return shown


def _content(disk: Disk, path: str) -> bytes:
    file = disk.open(path, read_only=True)
    content = file.read(0, file.size())
    file.close()
    return content
