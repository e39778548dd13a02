"""New timer files put in the place of the old ones, which are kept as a backup.

The order of the renames is what makes it one step for the broker::

    checkpoint moved          from here on nothing is believed of the timer files: a start makes
    wheel, old log moved      what waits again, from the units that are there and the commit log;
                              the seals and outlines of the old log are removed
    new log, wheel, metrics
    new checkpoint            from here on the new files count

A process that ends on the way leaves a store that delivers the same messages, each once; its start
reads the whole log. The old log goes from its end and the new one comes from its beginning, so
there is never a gap in it.
"""

from __future__ import annotations

from timermq.repair.backup import Backup
from timermq.timerlog.outlines import remove_outlines
from timermq.timerstore.disk import Disk
from timermq.timerstore.seal_reader import remove_seals

CHECKPOINT_FILE = "config/timercheck"
METRICS_FILE = "config/timermetrics"
WHEEL_FILE = "timerwheel"
LOG_FOLDER = "timerlog"


def install(disk: Disk, root: str, staged: str, backup: Backup) -> None:
    """Put the files under ``staged`` in the places of those of the store.

    Args:
        disk: The disk of the store.
        root: Its directory; its lock is held.
        staged: A directory under it, its files durable.
        backup: Where the old ones go.

    Raises:
        OSError: The disk refused; the store delivers what it did, and it can be retried.
    """
    backup.move(CHECKPOINT_FILE)
    backup.move(WHEEL_FILE)
    remove_seals(disk, f"{root}/{LOG_FOLDER}")
    remove_outlines(disk, f"{root}/{LOG_FOLDER}")
    old, new = f"{root}/{LOG_FOLDER}", f"{staged}/{LOG_FOLDER}"
    for name in reversed(disk.list_dir(old)):
        backup.move(f"{LOG_FOLDER}/{name}")
    for directory in (*disk.make_dirs(old), *disk.make_dirs(f"{root}/config")):
        disk.sync_dir_now(directory)
    for name in disk.list_dir(new):
        _take(disk, f"{new}/{name}", f"{old}/{name}")
    _take(disk, f"{staged}/{WHEEL_FILE}", f"{root}/{WHEEL_FILE}")
    backup.move(METRICS_FILE)
    _take(disk, f"{staged}/{METRICS_FILE}", f"{root}/{METRICS_FILE}")
    _take(disk, f"{staged}/{CHECKPOINT_FILE}", f"{root}/{CHECKPOINT_FILE}")


def _take(disk: Disk, source: str, target: str) -> None:
    """Rename a file, and sync the directory that it moves to."""
    disk.rename(source, target)
    disk.sync_dir_now(target.rpartition("/")[0])
