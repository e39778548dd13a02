"""Truncation: a stopped store cut to the position up to which a new master has the same log.

What was cut stands in a file of its own before anything else changes (``diverged_records``). Then
the store's files promise less, and only then the log ends earlier: a process that ends in between
leaves a store that is opened as after a power cut, or is cut once more. All that follows from the
log, the next start makes as after such a cut:

=====================  ============================================================
queues                 cut where the log ends
key index              files that tell of records behind the end are read again
timer log and wheel    units behind the end are cut off, deliveries are read again
=====================  ============================================================

What was confirmed, which is on every replica that counts, is never cut off.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager

import attrs

from timermq.timerlog import TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH
from timermq.timerstore.boot_note import remove_boot_note
from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.log_record import STORE_MS_END, store_ms_of
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import StoreFiles, checkpoint_path
from timermq.timerstore.store_lock import StoreLock
from timermq.timerstore.store_options import StoreOptions
from timermq.timerstore.store_recovery import plan_recovery

from .diverged_records import DivergedRecords
from .epochs import EpochFile


class TruncationError(StoreError):
    """The store cannot be cut there; nothing was changed. The message says what to do."""


@attrs.frozen(kw_only=True)
class Truncation:
    """The part of a log that was cut off."""

    start: int
    """Where the log ends now."""
    end: int
    """Where it ended before."""
    saved: str | None
    """Path of the copy of what stood between; None where nothing did."""

    @property
    def size(self) -> int:
        """Bytes that were cut off."""
        return self.end - self.start


@attrs.frozen(kw_only=True)
class StoppedLog:
    """The log of a stopped store, its end found as the next start would find it."""

    log: CommitLog
    start: int
    end: int
    confirmed_to: int
    """Records before it are on every replica that counts; 0: none are known to be."""
    epochs: EpochFile

    def is_record_bound(self, position: int) -> bool:
        """Whether a record begins or ends there.

        Raises:
            StoreFormatError: The log is damaged before it.
        """
        if not self.start <= position <= self.end:
            return False
        if position in (self.start, self.end) or position % self.log.segment_size == 0:
            return True
        first = max(self.start, position - position % self.log.segment_size)
        end = min(self.log.next_segment_start(position), self.end)
        return any(position in (at, at + size) for at, size in self.log.walk(first, end))

    def last_record(self, position: int) -> int | None:
        """Start of the last record before a position; None without one."""
        before = position - 1
        first = max(self.start, before - before % self.log.segment_size)
        starts = [at for at, _ in self.log.walk(first, position)]
        return starts[-1] if starts else None


@contextmanager
def stopped_log(disk: Disk, root: str, options: StoreOptions) -> Generator[StoppedLog]:
    """Open the log of a stopped store; nothing is written.

    Raises:
        StoreFormatError: The store is damaged, or of other settings.
        OSError: A file cannot be read.
    """
    last_exit_ok = StoreLock(disk, root).last_exit_ok
    files = StoreFiles.of(disk, root, options, last_exit_ok=last_exit_ok, read_only=True)
    try:
        plan = plan_recovery(files)
        files.log.set_end(plan.end)
        yield StoppedLog(
            log=files.log,
            start=files.log.min_offset,
            end=plan.end,
            confirmed_to=min(files.checkpoint.confirm_phy_offset, plan.end),
            epochs=EpochFile(disk, root),
        )
    finally:
        files.close()


def truncate_store(disk: Disk, root: str, options: StoreOptions, position: int) -> Truncation:
    """Let the log of a stopped store end at a position, durably (blocking).

    Args:
        disk: Its disk.
        root: Its directory.
        options: Settings, with the sizes that its files have.
        position: Where a record ends.

    Raises:
        TruncationError: No record ends there, or what stands behind it was confirmed.
        StoreLockedError: A process serves the store.
        StoreFormatError: It is damaged.
        OSError: The disk refused; the same call goes on.
    """
    lock = StoreLock(disk, root)
    lock.take()
    try:
        with stopped_log(disk, root, options) as stopped:
            _check(root, stopped, position)
            saved = None
            if position < stopped.end:
                saved = DivergedRecords(disk, root).save(stopped.log, position, stopped.end)
            end, store_ms = stopped.end, _store_ms_before(stopped, position)
        if position < end:
            lock.mark_running(os.getpid())
            remove_boot_note(disk, root)
            _promise_less(disk, root, options, position, store_ms)
            _cut_log(disk, root, options, position)
        EpochFile(disk, root).cut(position)
        return Truncation(start=position, end=end, saved=saved)
    finally:
        lock.release()


def _check(root: str, stopped: StoppedLog, position: int) -> None:
    if not stopped.is_record_bound(position):
        raise TruncationError(
            f"{root}: commit log: expected the end of a record from {stopped.start} to "
            f"{stopped.end} to cut at, found {position}: copy the store again from its master"
        )
    if position < stopped.confirmed_to:
        raise TruncationError(
            f"{root}: commit log: expected to cut at {stopped.confirmed_to} or behind, to where it "
            f"was confirmed, found {position}: the other replica has lost confirmed messages; let "
            "this one lead (timermq promote), or move this store away to do without them"
        )


def _store_ms_before(stopped: StoppedLog, position: int) -> int:
    """Store time of the last record before a position; 0 without one."""
    last = stopped.last_record(position) if position > stopped.start else None
    return 0 if last is None else store_ms_of(stopped.log.read(last, STORE_MS_END))


def _promise_less(
    disk: Disk, root: str, options: StoreOptions, position: int, store_ms: int
) -> None:
    """Have checkpoints and lists speak of no more than what stays."""
    files = StoreFiles.of(disk, root, options, last_exit_ok=False, read_only=True)
    try:
        files.register.load()
        files.register.cut(position)
    finally:
        files.close()
    _clear_timers(disk, root)
    with closing(StoreCheckpoint.open(disk, checkpoint_path(root))) as checkpoint:
        for name in ("physic", "logics", "index"):
            field = f"{name}_msg_timestamp"
            setattr(checkpoint, field, min(getattr(checkpoint, field), store_ms))
        checkpoint.master_flushed_offset = min(checkpoint.master_flushed_offset, position)
        checkpoint.confirm_phy_offset = min(checkpoint.confirm_phy_offset, position)
        if checkpoint.durable_py is not None:
            checkpoint.durable_py = min(checkpoint.durable_py, position)
        checkpoint.write()
        disk.sync_now(checkpoint.file)


def _clear_timers(disk: Disk, root: str) -> None:
    """Forget how far the timers are: slots that were read may be due again."""
    path = f"{root}/{CHECKPOINT_PATH}"
    if disk.exists(path):
        with closing(TimerCheckpoint.open(disk, path)) as checkpoint:
            checkpoint.clear()
            checkpoint.write()
            disk.sync_now(checkpoint.file)


def _cut_log(disk: Disk, root: str, options: StoreOptions, position: int) -> None:
    """Remove what stands behind a position, and its seals."""
    files = StoreFiles.of(disk, root, options, last_exit_ok=False, read_only=False)
    try:
        log = files.log
        log.load()
        log.set_end(position)
        log.zero_tail()
        log.sync_now(position)
    finally:
        files.close()
