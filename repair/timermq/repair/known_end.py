"""Up to where the commit log is known to have reached, as a check asks: by the files alone."""

from __future__ import annotations

from timermq.timerstore.disk import Disk
from timermq.timerstore.log_reach import LogReach
from timermq.timerstore.store_checkpoint import PAGE_SIZE, StoreCheckpoint

from .segment_row import SegmentRow, size_of


def checkpoint_page(disk: Disk, root: str) -> StoreCheckpoint | None:
    """The store's checkpoint; None where the file has not the size of one."""
    path = f"{root}/checkpoint"
    if size_of(disk, path) != PAGE_SIZE:
        return None
    return StoreCheckpoint.open(disk, path, read_only=True)


def was_stopped(disk: Disk, root: str) -> bool:
    """Whether the last process stopped in order."""
    return not disk.exists(f"{root}/abort")


def known_end(disk: Disk, root: str, row: SegmentRow) -> LogReach:
    """How far the log reached for certain.

    Args:
        disk: The disk of the store.
        root: Its directory.
        row: The segments of the commit log.

    Raises:
        OSError: The disk failed.
    """
    page = checkpoint_page(disk, root)
    durable_py = None if page is None else page.durable_py
    return LogReach.of(
        disk,
        root,
        [segment.start for segment in row.segments],
        row.segment_size,
        first=durable_py or row.start,
        is_ours=durable_py is not None,
        last_exit_ok=was_stopped(disk, root),
    )
