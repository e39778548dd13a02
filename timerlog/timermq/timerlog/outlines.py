"""The outlines of a timer log, as files: one for each segment, where RocketMQ does not look.

::

    timermq-outlines/<20 digits>:
    ┌───────────┬───────────┬─────┬───────────┬───────────┬─────
    │ outline 0 │ outline 1 │ ... │ outline n │ deletes 0 │ ...
    └───────────┴───────────┴─────┴───────────┴───────────┴─────

Outline k stands at k times its size, there is room for those of all stretches, and deletes follow
in the order of writing. All of it is derived and has checksums, so nothing is synced: what a power
cut takes is missing, and made again. What goes is synced: an outline of units that were cut off
must not come back. A log whose segments hold no more than a stretch gets none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import attrs
import structlog

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.mapped_file_queue import NAME_DIGITS

from .segment import units_in
from .stretch_outline import (
    NO_DELETES,
    OUTLINE,
    STRETCH_SIZE,
    Deletes,
    StretchOutline,
    decode_deletes,
)
from .unit import UNIT

DIRECTORY = "timermq-outlines"

log = structlog.get_logger("timermq.timerlog.outlines")


def stretches_of(segment_start: int, segment_size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of a segment, as far as it takes units."""
    last = segment_start + units_in(segment_size) * UNIT.size
    for start in range(segment_start, last, STRETCH_SIZE):
        yield start, min(start + STRETCH_SIZE, last)


def remove_outlines(disk: Disk, log_directory: str) -> None:
    """Forget the outlines of a log that another program has written, durably (blocking).

    Args:
        disk: The disk of the store.
        log_directory: Of the segments.

    Raises:
        OSError: The disk failed.
    """
    directory = f"{log_directory.rpartition('/')[0]}/{DIRECTORY}"
    names = disk.list_dir(directory)
    for name in names:
        disk.remove(f"{directory}/{name}")
    if names:
        disk.sync_dir_now(directory)


@attrs.frozen
class Outlines:
    """The outlines of one timer log."""

    disk: Disk
    log_directory: str
    """Of the segments: ``<root>/timerlog``."""
    segment_size: int

    @property
    def directory(self) -> str:
        """The directory of the files."""
        return f"{self.log_directory.rpartition('/')[0]}/{DIRECTORY}"

    @property
    def are_kept(self) -> bool:
        """Whether a log of such segments has any."""
        return self.segment_size > STRETCH_SIZE

    @property
    def _room(self) -> int:
        """Bytes of all outlines of a segment."""
        return -(-units_in(self.segment_size) * UNIT.size // STRETCH_SIZE) * OUTLINE.size

    def path(self, segment_start: int) -> str:
        """The file of a segment."""
        return f"{self.directory}/{segment_start:0{NAME_DIGITS}d}"

    def segments(self) -> list[int]:
        """Starts of the segments that have a file."""
        names = self.disk.list_dir(self.directory) if self.are_kept else []
        return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdecimal()]

    def read(self, segment_start: int) -> dict[int, StretchOutline]:
        """The outlines of a segment's stretches, by where these begin.

        Raises:
            OSError: The disk failed.
        """
        return {start: one for start, one in self.places(segment_start) if one is not None}

    def places(self, segment_start: int) -> Iterator[tuple[int, StretchOutline | None]]:
        """Each place of an outline that is not empty: start of its stretch, and the outline.

        None where the bytes are not that outline.

        Raises:
            OSError: The disk failed.
        """
        path = self.path(segment_start)
        if not self.are_kept or not self.disk.exists(path):
            return
        with closing(self.disk.open(path, read_only=True)) as file:
            data = file.read(0, self._room)
        for number, (start, end) in enumerate(stretches_of(segment_start, self.segment_size)):
            place = data[number * OUTLINE.size : (number + 1) * OUTLINE.size]
            one = StretchOutline.decode(place, start)
            if any(place):
                yield start, one if one is not None and one.end == end else None

    def deletes(self, outline: StretchOutline) -> Deletes | None:
        """The deletes of a stretch; None where the file does not hold them.

        Raises:
            OSError: The disk failed.
        """
        if not outline.delete_count:
            return NO_DELETES
        path = self.path(outline.start - outline.start % self.segment_size)
        if not self.disk.exists(path):
            return None
        with closing(self.disk.open(path, read_only=True)) as file:
            data = file.read(outline.deletes_at, outline.deletes_size)
        return decode_deletes(data, outline)

    def write(self, outline: StretchOutline, deletes: Deletes) -> None:
        """Keep an outline whose stretch is durable; nothing is synced.

        Raises:
            OSError: The disk did not take it; the stretch has none then.
        """
        segment_start = outline.start - outline.start % self.segment_size
        self.disk.make_dirs(self.directory)
        with closing(self.disk.open(self.path(segment_start), create=True)) as file:
            at = max(file.size(), self._room)
            if len(deletes):
                file.write(at, deletes.tobytes())
            kept = attrs.evolve(outline, deletes_at=at if len(deletes) else 0)
            file.write(self._place(segment_start, outline.start), kept.encode())

    def cut(self, end: int) -> None:
        """Forget durably what is told of stretches that end behind a position (blocking).

        Raises:
            OSError: The disk failed.
        """
        for segment_start in self.segments():
            if segment_start >= end:
                self._remove(segment_start)
            elif segment_start + self.segment_size > end:
                with closing(self.disk.open(self.path(segment_start))) as file:
                    if self._clear(file, segment_start, end):
                        self.disk.sync_now(file)

    def _clear(self, file: File, segment_start: int, end: int) -> bool:
        """Overwrite outlines of stretches that end behind a position; whether there was one."""
        open_at = next(
            (start for start, to in stretches_of(segment_start, self.segment_size) if to > end),
            None,
        )
        if open_at is None:
            return False
        first = self._place(segment_start, open_at)
        data = file.read(first, self._room - first)
        if not any(data):
            return False
        file.write(first, bytes(len(data)))
        return True

    def drop_before(self, pos: int) -> None:
        """Remove those of segments that are gone because they end at or before a position.

        Raises:
            OSError: The disk failed.
        """
        for segment_start in self.segments():
            if segment_start + self.segment_size <= pos:
                self.disk.remove(self.path(segment_start))

    def _remove(self, segment_start: int) -> None:
        self.disk.remove(self.path(segment_start))
        self.disk.sync_dir_now(self.directory)

    def _place(self, segment_start: int, stretch_start: int) -> int:
        """Byte of a stretch's outline in its file."""
        return (stretch_start - segment_start) // STRETCH_SIZE * OUTLINE.size
