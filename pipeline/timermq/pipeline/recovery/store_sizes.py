"""Sizes that a store's files were made with, found out from the files.

Segment sizes are settings, and the files do not record them. RocketMQ's defaults are a gigabyte for
the commit log and 420 MB for an index; other stores have other sizes. Every file of a row has the
same length; of a damaged row the length tells that most files have, of equally many the larger one.

Timer files that are not in their places may be in a backup: a repair or a rebuild that was killed
while it put new ones there has left them. They tell the sizes then, the newest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from timermq.timerlog import TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError, StoreFormatError
from timermq.timerstore.index_layout import ENTRY, HEADER, SLOT_SIZE
from timermq.timerstore.rocksdb_parts import check_parts
from timermq.timerstore.store_files import BACKUP_DIRECTORY, checkpoint_path
from timermq.timerstore.store_options import StoreOptions
from timermq.wheel import SLOT

from ..state.timer_options import TimerOptions

FILES_MAX = 1000
"""Files of queues after which no more directories are looked at."""

ENTRIES_PER_SLOT = 4
"""RocketMQ's default proportion of an index file, from which its two numbers are found."""


class NoStoreError(StoreError):
    """There is no store in the directory; the caller names another one."""


def expect_store(disk: Disk, root: str) -> None:
    """Refuse a directory that holds no store.

    Raises:
        NoStoreError: There is no commit log, nor a store that has none yet.
    """
    if not disk.is_dir(f"{root}/commitlog") and not _is_unused(disk, root):
        raise NoStoreError(f"{root}: expected a store, found no folder commitlog")


def measure(
    disk: Disk, root: str, store: StoreOptions, timer: TimerOptions, configured: Iterable[str]
) -> tuple[StoreOptions, TimerOptions]:
    """The options with the sizes that the files have.

    Args:
        disk: The disk of the store.
        root: Its directory.
        store: Options of the store; what is not measured is kept.
        timer: Options of its timers.
        configured: Keys that somebody has set: they count more than the files.

    Raises:
        NoStoreError: There is no commit log, nor a store that has none yet.
        StoreKindError: RocketMQ keeps queues or tables of it in RocksDB.
    """
    expect_store(disk, root)
    check_parts(disk, root)
    fixed = set(configured)

    def size(key: str, measured: int, otherwise: int) -> int:
        return measured if measured > 0 and key not in fixed else otherwise

    slots, entries = _index_numbers(_file_size(disk, [f"{root}/index"]))
    return attrs.evolve(
        store,
        mapped_file_size_commit_log=size(
            "mapped_file_size_commit_log",
            _file_size(disk, [f"{root}/commitlog"]),
            store.mapped_file_size_commit_log,
        ),
        mapped_file_size_consume_queue=size(
            "mapped_file_size_consume_queue",
            _file_size(disk, _queue_directories(disk, root)),
            store.mapped_file_size_consume_queue,
        ),
        max_hash_slot_num=size("max_hash_slot_num", slots, store.max_hash_slot_num),
        max_index_num=size("max_index_num", entries, store.max_index_num),
    ), attrs.evolve(
        timer,
        mapped_file_size_timer_log=size(
            "mapped_file_size_timer_log",
            _timer_log_size(disk, root),
            timer.mapped_file_size_timer_log,
        ),
        slots_total=size("slots_total", _slots_total(disk, root), timer.slots_total),
        timer_precision_ms=size(
            "timer_precision_ms", _precision_ms(disk, root), timer.timer_precision_ms
        ),
    )


def _is_unused(disk: Disk, root: str) -> bool:
    """Whether a broker made a store here that nothing was ever sent to.

    It has a checkpoint and no logs. Where there is another one of them, the commit log is not
    empty but gone, or elsewhere.
    """
    logs = ("consumequeue", "timerlog", "index")
    return disk.exists(checkpoint_path(root)) and not any(
        disk.is_dir(f"{root}/{folder}") for folder in logs
    )


def _queue_directories(disk: Disk, root: str) -> Iterable[str]:
    base = f"{root}/consumequeue"
    for topic in disk.list_dir(base):
        for queue_id in disk.list_dir(f"{base}/{topic}"):
            yield f"{base}/{topic}/{queue_id}"


def _file_size(disk: Disk, directories: Iterable[str]) -> int:
    """Bytes that most files have which are not empty, 0 without any."""
    counts: Counter[int] = Counter()
    for directory in directories:
        for name in disk.list_dir(directory):
            if name.isdecimal() and (size := _size(disk, f"{directory}/{name}")):
                counts[size] += 1
        if counts.total() >= FILES_MAX:
            break
    return max(counts, key=lambda size: (counts[size], size), default=0)


def _size(disk: Disk, path: str) -> int:
    file = disk.open(path, read_only=True)
    try:
        return file.size()
    finally:
        file.close()


def _timer_log_size(disk: Disk, root: str) -> int:
    sizes = (_file_size(disk, [f"{one}/timerlog"]) for one in _places(disk, root))
    return next((size for size in sizes if size), 0)


def _slots_total(disk: Disk, root: str) -> int:
    path = _where(disk, root, "timerwheel")
    return 0 if path is None else _size(disk, path) // (2 * SLOT.size)


def _precision_ms(disk: Disk, root: str) -> int:
    """The precision in our checkpoint, milliseconds; RocketMQ does not record it."""
    path = _where(disk, root, CHECKPOINT_PATH)
    if path is None:
        return 0
    try:
        checkpoint = TimerCheckpoint.open(disk, path, read_only=True)
    except StoreFormatError:
        return 0
    checkpoint.close()
    return 0 if checkpoint.extension is None else checkpoint.extension.precision_ms


def _where(disk: Disk, root: str, name: str) -> str | None:
    """The path of a file that may be in a backup; none where it is nowhere."""
    paths = (f"{one}/{name}" for one in _places(disk, root))
    return next(filter(disk.exists, paths), None)


def _places(disk: Disk, root: str) -> Iterator[str]:
    """The store's directory, and its backups, the newest first."""
    yield root
    for moment in reversed(disk.list_dir(f"{root}/{BACKUP_DIRECTORY}")):
        yield f"{root}/{BACKUP_DIRECTORY}/{moment}"


def _index_numbers(size: int) -> tuple[int, int]:
    """Slots and entries of an index file; zeros when the proportion is another one."""
    slots, rest = divmod(size - HEADER.size, SLOT_SIZE + ENTRIES_PER_SLOT * ENTRY.size)
    return (0, 0) if rest else (slots, slots * ENTRIES_PER_SLOT)
