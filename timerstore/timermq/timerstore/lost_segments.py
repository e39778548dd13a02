"""Segments of a log that are lost, where another log has all that they held.

A lost segment is begun again as an empty file. Opened it gets its length, and reads as zeros there,
which its seals tell from what it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from .disk import Disk
from .seal_reader import seals_directory

log = structlog.get_logger("timermq.timerstore.lost_segments")


def lost_segments(names: Sequence[str], sealed: Sequence[str], segment_size: int) -> list[str]:
    """Which segments are lost.

    Args:
        names: Of the segments that are there.
        sealed: Of those that have seals: cleaning removes these first, so one that has them and
            stands right before the others was not cleaned.
        segment_size: Bytes of one.

    Returns:
        Their names: those between others, and those before the first. No names where a file is no
        segment of this log, or more are lost than are there.
    """
    starts = [int(name) for name in names if name.isascii() and name.isdigit()]
    if not names or len(starts) < len(names) or any(one % segment_size for one in starts):
        return []
    width, first, last = len(names[0]), starts[0], starts[-1]
    if (last - first) // segment_size > 2 * len(names):
        return []
    while f"{first - segment_size:0{width}d}" in sealed:
        first -= segment_size
    wanted = (f"{start:0{width}d}" for start in range(first, last, segment_size))
    return [name for name in wanted if name not in names]


def begin_lost_segments(disk: Disk, directory: str, names: Sequence[str], size: int) -> list[str]:
    """Begin lost segments again (blocking).

    Args:
        disk: Their disk.
        directory: Theirs.
        names: Of the segments that are there.
        size: Bytes of one.

    Returns:
        All names, in order.

    Raises:
        OSError: The disk failed.
    """
    lost = lost_segments(names, disk.list_dir(seals_directory(directory)), size)
    for name in lost:
        log.error("segment is lost", path=f"{directory}/{name}")
        disk.open(f"{directory}/{name}", create=True).close()
    if lost:
        disk.sync_dir_now(directory)
    return sorted({*names, *lost})
