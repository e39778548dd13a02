"""The ends of a store's files by its checkpoints, and the parts outside them."""

from __future__ import annotations

from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import checkpoint_path

from ...object_disk import disk_of
from ...store_view import StoreView
from .queues import Settled


def flushed_pos(view: StoreView) -> int:
    """Up to where the timer log was whole when its checkpoint was written."""
    page = TimerCheckpoint.open(
        disk_of(view.root), f"{view.root}/config/timercheck", read_only=True
    )
    page.close()
    return page.last_timer_log_flush_pos


def settled_of(view: StoreView) -> Settled:
    """Which records of a store have their units by now."""
    disk = disk_of(view.root)
    register = QueueRegister(disk, view.root)
    register.load()
    deleted = register.deleted_topics
    before_py, before_ms = view.log.end, None
    if not view.is_live and disk.exists(f"{view.root}/abort"):
        page = StoreCheckpoint.open(disk, checkpoint_path(view.root), read_only=True)
        if page.durable_py is None:
            before_ms = page.min_timestamp
        else:
            before_py = min(page.durable_py, before_py)
    return Settled(before_py=before_py, before_ms=before_ms, deleted_topics=deleted)


def left_out(view: StoreView, *, bodies: bool) -> list[str]:
    """The parts that an audit does not judge, in words."""
    notes: list[str] = []
    if view.levels_left:
        notes.append(
            f"{view.levels_left} messages of classic levels wait in {SCHEDULE_TOPIC}: not judged; "
            "a broker that serves the store takes them over"
        )
    if not bodies:
        notes.append("bodies were not compared with their checksums")
    return notes
