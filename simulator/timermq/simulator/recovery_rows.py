"""The decisions whose rows are counted: one that no seed reaches is shown with a 0 all the same."""

from __future__ import annotations

from timermq.pipeline.records.undeliverable import Reason
from timermq.pipeline.recovery.timer_recovery import DECISIONS
from timermq.timerstore.disk import Disk
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.store_checkpoint import StoreCheckpoint

TIMERS = "recovery of timers"
STORE = "recovery of the store"
QUARANTINED = "quarantined"
NEW, CLEAN = "no store yet", "clean"
OURS, BY_TIMES, START = "from our position", "by RocketMQ's times", "from the start of the log"
ROWS = (
    *(f"{TIMERS}: {one.label}" for one in DECISIONS.values()),
    *(f"{STORE}: {row}" for row in (NEW, CLEAN, OURS, BY_TIMES, START)),
    *(f"{QUARANTINED}: {reason.value}" for reason in Reason),
)
"""All of them, as they are counted."""


def store_row(disk: Disk, root: str) -> str:
    """How the recovery of a store will begin; asked before it is opened."""
    path = f"{root}/{FileFamily.STORE_CHECKPOINT.value}"
    if not disk.exists(root):
        return NEW
    if not disk.exists(f"{root}/{FileFamily.ABORT.value}"):
        return CLEAN
    checkpoint = StoreCheckpoint.open(disk, path, read_only=True)
    if checkpoint.durable_py is not None:
        return OURS
    return BY_TIMES if checkpoint.physic_msg_timestamp else START
