"""A commit log that was there and is gone: moved, on a disk that is not mounted, or set elsewhere.

Without this look the rest of the store would be taken for what a power cut left: its queues would
be emptied, and a second log would begin at 0. A power cut can leave a store without a log, but only
before anything of the log was durable, when the checkpoint knows of nothing and no process has
closed the store.
"""

from __future__ import annotations

from .errors import StoreFormatError
from .store_files import StoreFiles

TIMER_LOG = "timerlog"
"""Directory of the timer log, whose units tell of records too."""
SIZE_FIELD = 4
"""Bytes with which a unit begins: its size, never zero."""


def check_log_is_there(store: StoreFiles) -> None:
    """Refuse a store that has no commit log but shows that there was one.

    Args:
        store: With log and queues loaded; nothing is written.

    Raises:
        StoreFormatError: The log is gone.
    """
    if store.log.segments:
        return
    sign = _sign(store)
    if sign is not None:
        expected = (
            f"the commit log, for {sign} (one that stands elsewhere can be moved or linked here)"
        )
        raise StoreFormatError(store.log.directory, 0, expected, "none")


def _sign(store: StoreFiles) -> str | None:
    """The sign that there was a log; None without one."""
    if store.checkpoint.physic_msg_timestamp > 0 or (store.checkpoint.durable_py or 0) > 0:
        return "the checkpoint tells of durable messages"
    if not store.last_exit_ok:
        return None
    for queue in store.queues:
        if queue.max_offset > queue.min_offset:
            return f"the queue {queue.topic}/{queue.queue_id} holds units"
    return "the timer log holds units" if _has_timer_units(store) else None


def _has_timer_units(store: StoreFiles) -> bool:
    """Whether a unit stands at the beginning of the timer log's oldest file."""
    directory = f"{store.root}/{TIMER_LOG}"
    for name in store.disk.list_dir(directory)[:1]:
        file = store.disk.open(f"{directory}/{name}", read_only=True)
        try:
            return any(file.read(0, SIZE_FIELD))
        finally:
            file.close()
    return False
