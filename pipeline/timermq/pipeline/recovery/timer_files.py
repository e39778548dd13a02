"""The files of the timer service under a store's root, opened together.

========================  ================================================  ====================
path                      what                                              when lost
========================  ================================================  ====================
``timerwheel``            slots: first and last unit of each                from the timer log
``timerlog/``             units: one a pending message, chained by slot     from the commit log
``config/timercheck``     how far reading and syncing had come              both logs are read whole
``config/timermetrics``   pending messages by topic                         counted again
========================  ================================================  ====================

RocketMQ may have left other files for the same: ``TimerEngines``.
"""

from __future__ import annotations

import contextlib

import attrs

from timermq.timerlog import TimerCheckpoint, TimerLog, TimerMetrics
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH
from timermq.timerstore.disk import Disk
from timermq.wheel import TimerWheel
from timermq.wheel.wheel_snapshots import WHEEL_NAME, remove_snapshots

from ..state.timer_options import TimerOptions
from .timer_engine import TimerEngines


@attrs.frozen(eq=False, kw_only=True)
class TimerFiles:
    """The four files of the timer service, open."""

    disk: Disk
    wheel: TimerWheel
    timer_log: TimerLog
    checkpoint: TimerCheckpoint
    metrics: TimerMetrics
    engines: TimerEngines
    """What RocketMQ's engines have left besides, as it was found."""
    root: str
    """The store's directory."""
    read_only: bool
    """Nothing is written."""

    @classmethod
    def open(
        cls, disk: Disk, root: str, options: TimerOptions, *, read_only: bool = False
    ) -> TimerFiles:
        """Open or create the files under ``root``.

        Raises:
            StoreFormatError: A file is there but is not what its name says; nothing was changed.
            OSError: A file cannot be made.
        """
        if not read_only:
            disk.make_dirs(f"{root}/config")
        engines = TimerEngines.of(disk, root)
        with contextlib.ExitStack() as opened:
            wheel = TimerWheel.open(
                disk,
                f"{root}/{WHEEL_NAME}",
                slots_total=options.slots_total,
                precision_ms=options.timer_precision_ms,
                read_only=read_only,
            )
            opened.callback(wheel.close)
            timer_log = TimerLog.open(
                disk, f"{root}/timerlog", options.mapped_file_size_timer_log, read_only=read_only
            )
            opened.callback(timer_log.close)
            checkpoint = TimerCheckpoint.open(
                disk, f"{root}/{CHECKPOINT_PATH}", read_only=read_only
            )
            opened.callback(checkpoint.close)
            metrics = TimerMetrics.load(disk, f"{root}/config/timermetrics")
            opened.pop_all()
        return cls(
            disk=disk,
            wheel=wheel,
            timer_log=timer_log,
            checkpoint=checkpoint,
            metrics=metrics,
            engines=engines,
            root=root,
            read_only=read_only,
        )

    def newest_time_ms(self, last_store_ms: int) -> int:
        """The newest time that the last run worked by, epoch milliseconds; 0: none is known.

        Our checkpoint names it better than the newest record: store times never go back, so they
        stay ahead when a clock that was wrong has been set right.

        Args:
            last_store_ms: Of the newest record.
        """
        checkpoint = self.checkpoint
        newest_ms = last_store_ms if checkpoint.extension is None else checkpoint.timestamp
        return max(newest_ms, checkpoint.last_read_time_ms)

    def promise_less(
        self, read_ms: int, queue_offset: int, scan_py: int, precision_ms: int
    ) -> None:
        """Write a checkpoint of the timer log as it is after it was cut (blocking).

        Before anything is appended: units that come to stand below the old flushed position would
        be taken as durable, and their messages too, by a start after the next crash. The arguments
        are the checkpoint's; read only it changes in memory.

        Raises:
            OSError: The disk failed.
        """
        self.checkpoint.update(
            last_read_time_ms=read_ms,
            last_timer_log_flush_pos=self.timer_log.max_pos,
            last_timer_queue_offset=queue_offset,
            scan_py=scan_py,
            precision_ms=precision_ms,
            now_ms=self.checkpoint.timestamp,
        )
        if not self.read_only:
            self.checkpoint.write()
            self.disk.sync_now(self.checkpoint.file)
            self.checkpoint.mark_durable()

    def remove_snapshots(self) -> None:
        """Remove RocketMQ's snapshots of a wheel that is ours by now; read only they stay.

        Raises:
            OSError: The disk failed.
        """
        if not self.read_only:
            remove_snapshots(self.disk, self.root, list(self.engines.snapshots))

    def erase(self, from_ms: int) -> None:
        """Forget what waits: all of it is in the commit log, from which recovery rebuilds it.

        The checkpoint first: without one nothing is believed of the others, whatever a crash leaves
        of them.

        Args:
            from_ms: Where the ring begins.

        Raises:
            OSError: The disk failed.
        """
        self.checkpoint.clear()
        self.checkpoint.write()
        self.disk.sync_now(self.checkpoint.file)
        self.checkpoint.mark_durable()
        self.timer_log.cut(self.timer_log.min_pos)
        self.wheel.reset(from_ms)
        self.wheel.remove_file()

    def close(self) -> None:
        """Close the files; nothing is written."""
        self.timer_log.close()
        self.wheel.close()
        self.checkpoint.close()
