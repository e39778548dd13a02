"""The kinds of files of a store, told by their paths.

Each family has its own rules of what a crash or a damage may leave, so faults, checks and reports
speak of families.
"""

from __future__ import annotations

import enum


class FileFamily(enum.Enum):
    """One kind of file below a store's root; the value is its place there."""

    COMMIT_LOG = "commitlog"
    CONSUME_QUEUE = "consumequeue"
    INDEX = "index"
    TIMER_LOG = "timerlog"
    SEALS = "timermq-seals"
    TIMER_WHEEL = "timerwheel"
    STORE_CHECKPOINT = "checkpoint"
    TIMER_CHECKPOINT = "config/timercheck"
    CONFIG = "config"
    """The JSON tables, the timer metrics among them."""
    ABORT = "abort"
    LOCK = "lock"
    OTHER = ""
    """The root itself, and what is not RocketMQ's."""


def family_of(root: str, path: str) -> FileFamily:
    """The family of a file or directory.

    Args:
        root: The store's directory.
        path: A path on the same disk; a temporary file or ``.bak`` belongs with what it stands for.
    """
    if not path.startswith(f"{root}/"):
        return FileFamily.OTHER
    place = path[len(root) + 1 :].removesuffix(".tmp").removesuffix(".bak")
    if place == FileFamily.TIMER_CHECKPOINT.value:
        return FileFamily.TIMER_CHECKPOINT
    try:
        return FileFamily(place.split("/", 1)[0])
    except ValueError:
        return FileFamily.OTHER
