"""Segments of the timer log that were cut short get their length again.

What they lost reads as zeros then, which are no units: recovery makes them of the commit log again.
"""

from __future__ import annotations

import structlog

from timermq.timerstore.disk import Disk

READ_SIZE = 1 << 20
"""Bytes that are read in one step."""

log = structlog.get_logger("timermq.timerlog.cut_segments")


def lengthen_cut_segments(disk: Disk, directory: str, segment_size: int) -> None:
    """Before the log is opened to be written.

    The last segments without any data were being made when the process ended, and are left alone.

    Args:
        disk: Where they are.
        directory: Of the segments.
        segment_size: Bytes of one.

    Raises:
        OSError: The disk failed.
    """
    is_last = True
    for name in reversed(disk.list_dir(directory)):
        path = f"{directory}/{name}"
        if disk.is_dir(path) or not name.isdecimal():
            continue
        file = disk.open(path)
        try:
            size = file.size()
            if size < segment_size:
                parts = (file.read(at, READ_SIZE) for at in range(0, size, READ_SIZE))
                if is_last and not any(map(any, parts)):
                    continue
                log.error("segment was cut short", path=path, size=size, expected=segment_size)
                file.allocate(segment_size)
            is_last = False
        finally:
            file.close()
