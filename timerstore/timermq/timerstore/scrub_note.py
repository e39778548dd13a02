"""``config/timermq-scrub``: how far the scrub of a store has come, for the next process.

Written in its place, without a sync: an old one has work done again, and one that is damaged or
missing counts as none.
"""

from __future__ import annotations

import zlib
from contextlib import closing

import attrs

from .disk import Disk
from .layout import Layout

MAGIC = int.from_bytes(b"TMQN")

NOTE = Layout(
    "scrub note",
    ">",
    (
        ("magic", "I", "TMQN"),
        ("part", "i", "part of the store that is compared: commit log, timer log, tables"),
        ("at", "q", "where in it the next piece begins"),
        ("begun_ms", "q", "when the pass under way, or else the last one, began, epoch ms"),
        ("whole_ms", "q", "when the last whole pass ended, epoch ms; 0 without one"),
        ("left", "q", "things that it found damaged and left so"),
        ("left_now", "q", "the same of the pass under way"),
        ("crc", "I", "CRC-32 of all before it"),
    ),
)


@attrs.define(kw_only=True)
class ScrubNote:
    """The note, as it is changed while the store is scrubbed."""

    part: int = 0
    at: int = 0
    begun_ms: int = 0
    whole_ms: int = 0
    left: int = 0
    left_now: int = 0

    @classmethod
    def load(cls, disk: Disk, root: str) -> ScrubNote:
        """The note of a store; an empty one when there is none that can be read."""
        try:
            with closing(disk.open(_path(root), read_only=True)) as file:
                data = file.read(0, NOTE.size)
        except OSError:
            return cls()
        if len(data) < NOTE.size or int.from_bytes(data[-4:]) != zlib.crc32(data[:-4]):
            return cls()
        magic, part, at, begun_ms, whole_ms, left, left_now, _ = NOTE.unpack(data)
        if magic != MAGIC or min(part, at, begun_ms, whole_ms, left, left_now) < 0:
            return cls()
        return cls(
            part=part,
            at=at,
            begun_ms=begun_ms,
            whole_ms=whole_ms,
            left=left,
            left_now=left_now,
        )

    def save(self, disk: Disk, root: str) -> None:
        """Write it.

        Raises:
            OSError: The disk refused.
        """
        fields = (self.part, self.at, self.begun_ms, self.whole_ms, self.left, self.left_now)
        head = NOTE.pack(MAGIC, *fields, 0)[:-4]
        disk.make_dirs(f"{root}/config")
        with closing(disk.open(_path(root), create=True)) as file:
            file.write(0, head + zlib.crc32(head).to_bytes(4))


def _path(root: str) -> str:
    return f"{root}/config/timermq-scrub"
