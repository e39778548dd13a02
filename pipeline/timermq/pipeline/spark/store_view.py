"""The readable parts of a store's directory, and the positions of the timer service.

A live broker publishes two positions: ``durable_py`` in the store checkpoint, before which log and
queues are whole and durable, and the numbers of the timer checkpoint. Nothing behind them is read,
whatever the files hold: a record may be half written. The timer checkpoint is read first, so all
that it calls done stands in the log before ``durable_py``.

A stopped store is opened read only, as the next start would: its ends are found by
recovery, of any writer and however that ended. A copy of a store in an object store is read as a
live one, by the positions in its checkpoints. A backup has the commit log alone, up to the position
in its manifest.

A view is small, does not change, and goes to executors by pickle.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import attrs

from timermq.backup.manifest import Manifest
from timermq.pipeline.offline_store import OfflineStore, open_offline
from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import no_access
from timermq.timerstore.os_disk import is_locked
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import checkpoint_path
from timermq.timerstore.store_options import StoreOptions

from ..levels.level_queues import count_left
from ..recovery.store_sizes import measure
from ..state.timer_options import TimerOptions
from .backup_log import BackupPart, load_manifest, pieces_of
from .errors import SparkJobError
from .file_part import FilePart
from .object_disk import disk_of
from .places import is_object, object_place, open_ranges


@attrs.frozen(kw_only=True)
class LogView:
    """A log in segments: the commit log, the timer log, one queue."""

    directory: str
    segment_size: int
    starts: tuple[int, ...]
    """Positions of the segments' first bytes, ascending, without gaps."""
    end: int
    """Nothing behind it may be read."""
    backup: Manifest | None = None
    """Of the log of a backup, in place of files of whole segments."""

    @property
    def start(self) -> int:
        """Start of the oldest segment; the end of an empty log."""
        return min(self.starts[0], self.end) if self.starts else self.end

    def path(self, start: int) -> str:
        """The file of a segment."""
        return f"{self.directory}/{start:020d}"

    def part(self, start: int, low: int, high: int) -> FilePart:
        """A range of the segment that begins at ``start``.

        Raises:
            SparkJobError: The list of its pieces in a backup is missing or damaged.
        """
        if self.backup is None:
            return FilePart(self.path(start), start, low, high)
        pieces = pieces_of(self.directory, self.backup, start)
        return BackupPart(self.directory, start, low, high, pieces=pieces)

    def segments(self, from_: int, to: int) -> list[tuple[int, int, int]]:
        """The segments that overlap a range: (where it begins, from, to), all in the log."""
        to = min(to, self.end)
        return [
            (start, max(start, from_), min(start + self.segment_size, to))
            for start in self.starts
            if max(start, from_) < min(start + self.segment_size, to)
        ]


@attrs.frozen(kw_only=True)
class StoreView:
    """One store as it stood when it was looked at."""

    root: str
    is_live: bool
    """A broker serves it."""
    store_options: StoreOptions
    timer_options: TimerOptions
    """Both with the sizes that the files have."""
    log: LogView
    timer_log: LogView
    read_ms: int
    """Slots before it have reached their topics."""
    queue_offset: int
    """Entries of the timer topic before it have units in the timer log."""
    scan_py: int
    """Deliveries of slots from ``read_ms`` on stand at or behind it in the commit log."""
    is_backup: bool = False
    """It has the commit log alone."""
    levels_left: int = 0
    """Messages in queues of classic levels, which a broker that serves the store takes over."""
    _offline: OfflineStore | None = attrs.field(default=None, eq=False, repr=False, alias="offline")
    """A stopped one while it is looked at, open; no process hands it on."""

    @classmethod
    def of(cls, directory: str, *, timer_precision_ms: int | None = None) -> StoreView:
        """Look at a store; as ``looked_at``, and a stopped one is closed again."""
        with cls.looked_at(directory, timer_precision_ms=timer_precision_ms) as view:
            return attrs.evolve(view, offline=None)

    @classmethod
    @contextmanager
    def looked_at(
        cls, directory: str, *, timer_precision_ms: int | None = None
    ) -> Generator[StoreView]:
        """Look at a store for the length of a block, in which a stopped one is recovered once.

        Args:
            directory: The store's.
            timer_precision_ms: Of its wheel, where RocketMQ was set to another one than a second
                and no checkpoint of ours tells.

        Raises:
            NoStoreError: There is none.
            StoreError: It is damaged.
            SparkJobError: RocketMQ serves it, or a file of it may not be read.
        """
        root = object_place(directory) or os.path.normpath(directory)
        with ExitStack() as opened:
            try:
                view = cls._looked_at(root, timer_precision_ms, opened)
            except PermissionError as error:
                raise SparkJobError(no_access(error)) from error
            yield view

    @contextmanager
    def recovered(self) -> Generator[OfflineStore]:
        """What recovery finds of a stopped store, for the length of a block.

        Raises:
            StoreError: It is damaged.
        """
        if self._offline is not None:
            yield self._offline
            return
        disk = disk_of(self.root)
        with open_offline(disk, self.root, self.store_options, self.timer_options) as offline:
            yield offline

    @classmethod
    def _looked_at(cls, root: str, timer_precision_ms: int | None, opened: ExitStack) -> StoreView:
        disk = disk_of(root)
        timer_options, given = TimerOptions(), ""
        if timer_precision_ms is not None:
            given = "timer_precision_ms"
            timer_options = attrs.evolve(timer_options, timer_precision_ms=timer_precision_ms)
        manifest = None if disk.is_dir(f"{root}/commitlog") else load_manifest(root)
        if manifest is not None:
            return cls._of_backup(root, manifest, timer_options)
        options = measure(disk, root, StoreOptions(), timer_options, [given])
        if is_object(root) or is_locked(f"{root}/lock"):
            return cls._live(disk, root, *options)
        offline = opened.enter_context(open_offline(disk, root, *options))
        return cls._stopped(offline, disk, root, *options)

    @classmethod
    def _live(
        cls, disk: Disk, root: str, store_options: StoreOptions, timer_options: TimerOptions
    ) -> StoreView:
        timers = TimerCheckpoint.open(disk, f"{root}/config/timercheck", read_only=True)
        timers.close()
        durable_py = StoreCheckpoint.open(disk, checkpoint_path(root), read_only=True).durable_py
        if durable_py is None and not disk.list_dir(f"{root}/commitlog"):
            durable_py = 0  # nothing has ever been stored
        if timers.extension is None or durable_py is None:
            raise SparkJobError(
                f"{root}: expected a store that timermq serves, or a stopped one, found none of "
                "its positions: RocketMQ serves it, or it was started a moment ago"
                + ("; of a copy that RocketMQ wrote: copy it to a disk" if is_object(root) else "")
            )
        return cls(
            root=root,
            is_live=True,
            store_options=store_options,
            timer_options=timer_options,
            log=_log_view(
                disk, f"{root}/commitlog", store_options.mapped_file_size_commit_log, durable_py
            ),
            timer_log=_log_view(
                disk,
                f"{root}/timerlog",
                timer_options.mapped_file_size_timer_log,
                timers.last_timer_log_flush_pos,
            ),
            read_ms=timers.last_read_time_ms,
            queue_offset=timers.last_timer_queue_offset,
            scan_py=timers.extension.scan_py,
        )

    @classmethod
    def _stopped(
        cls,
        offline: OfflineStore,
        disk: Disk,
        root: str,
        store_options: StoreOptions,
        timer_options: TimerOptions,
    ) -> StoreView:
        log_end = offline.store.commit_log.max_offset
        timer_log = offline.timer_files.timer_log
        return cls(
            root=root,
            is_live=False,
            store_options=store_options,
            timer_options=timer_options,
            log=_log_view(
                disk, f"{root}/commitlog", store_options.mapped_file_size_commit_log, log_end
            ),
            timer_log=_log_view(
                disk,
                f"{root}/timerlog",
                timer_options.mapped_file_size_timer_log,
                timer_log.max_pos,
            ),
            read_ms=offline.timers.read_ms,
            queue_offset=offline.timers.queue_offset,
            scan_py=offline.timers.scan_py,
            levels_left=count_left(offline.store),
            offline=offline,
        )

    @classmethod
    def _of_backup(cls, root: str, manifest: Manifest, timer_options: TimerOptions) -> StoreView:
        size = manifest.segment_size or StoreOptions().mapped_file_size_commit_log
        first = manifest.start - manifest.start % size
        log = LogView(
            directory=root,
            segment_size=size,
            starts=tuple(range(first, manifest.end, size)),
            end=manifest.end,
            backup=manifest,
        )
        return cls(
            root=root,
            is_live=True,
            store_options=StoreOptions(mapped_file_size_commit_log=size),
            timer_options=timer_options,
            log=log,
            timer_log=LogView(directory=root, segment_size=size, starts=(), end=0),
            read_ms=0,
            queue_offset=0,
            scan_py=0,
            is_backup=True,
        )

    def queues(self, topics: Sequence[str] = ()) -> list[tuple[str, int, LogView]]:
        """The consume queues: topic, queue, files; what is behind the end is for the reader to see.

        Args:
            topics: Only these; none for all.
        """
        disk, base = disk_of(self.root), f"{self.root}/consumequeue"
        found: list[tuple[str, int, LogView]] = []
        for topic in disk.list_dir(base):
            if topics and topic not in topics:
                continue
            for queue_id in sorted(
                map(int, filter(str.isdecimal, disk.list_dir(f"{base}/{topic}")))
            ):
                view = _log_view(
                    disk,
                    f"{base}/{topic}/{queue_id}",
                    self.store_options.mapped_file_size_consume_queue,
                    None,
                )
                found.append((topic, queue_id, view))
        return found


def _length(path: str) -> int:
    """Bytes of a file; none of one that has gone."""
    try:
        with closing(open_ranges(path)) as file:
            return file.size()
    except FileNotFoundError:
        return 0


def life_of(root: str) -> tuple[bool, int]:
    """Whether a broker serves a store, and when the last one did; a copy may change at any time."""
    if is_object(root):
        return True, 0
    try:
        changed_ns = Path(f"{root}/checkpoint").stat().st_mtime_ns
    except FileNotFoundError:
        changed_ns = 0
    return is_locked(f"{root}/lock"), changed_ns


def _log_view(disk: Disk, directory: str, segment_size: int, end: int | None) -> LogView:
    """The segments that are there; ``end`` None is that of the last one's file.

    A process that ended between making a file and giving it its length leaves an empty one.
    """
    starts = tuple(int(name) for name in disk.list_dir(directory) if name.isdecimal())
    last = starts[-1] + segment_size if starts else 0
    if starts and end is None:
        end = starts[-1] + _length(f"{directory}/{starts[-1]:020d}")
    return LogView(
        directory=directory,
        segment_size=segment_size,
        starts=starts,
        end=last if end is None else min(end, last),
    )
