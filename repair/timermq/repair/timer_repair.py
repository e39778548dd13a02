"""Timer log, wheel and timer checkpoint brought in line, by the recovery that each start does too.

What is damaged is taken away first: units from the first doubtful one on, the wheel, a checkpoint
that says more than is there. Recovery then makes the wheel from the units that are left, and learns
from the commit log what was delivered; and what it found out is written, so that the next start
goes on from there. Messages whose units were cut are enqueued by that start, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import attrs

from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.recovery.timer_recovery import recover
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import TimerCheckpoint
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH
from timermq.timerstore.config_file import save_json_now
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.seal_reader import remove_seals
from timermq.timerstore.store_options import StoreOptions

from .backup import Backup
from .finding import Finding, Step
from .log_repair import zero_behind
from .segment_row import SegmentRow
from .timer_check import WHEEL_FILE, TimerCheck

STEPS = (Step.CUT_TIMER_LOG, Step.ENQUEUE_AGAIN, Step.REBUILD_WHEEL)
METRICS_FILE = "config/timermetrics"


@attrs.frozen(eq=False, kw_only=True)
class TimerRepair:
    """Repairs the files of the timer service of one store."""

    disk: Disk
    root: str
    store_options: StoreOptions
    timer_options: TimerOptions
    backup: Backup
    now_ms: int

    async def run(self, check: TimerCheck, findings: Sequence[Finding]) -> bool:
        """Do the steps that concern timers; whether there were any.

        Raises:
            StoreError: The commit log or the queues are still damaged.
            OSError: The disk refused; a repair can be run again.
        """
        is_reset = any(
            one.step is Step.RESET_CHECKPOINT and one.subject == CHECKPOINT_PATH for one in findings
        )
        mine = [one for one in findings if one.step in STEPS]
        if not mine and not is_reset:
            return False
        cuts = [one.subject for one in mine if one.step is Step.CUT_TIMER_LOG]
        again = [one.subject for one in mine if one.step is Step.ENQUEUE_AGAIN]
        row = SegmentRow(
            self.disk, self.root, "timerlog", self.timer_options.mapped_file_size_timer_log
        )
        # Recovery may cut more than was found: what the ring has no place for.
        for segment in row.segments:
            self.backup.copy(segment.path)
        if cuts:
            self._cut(row, min(cut for cut in cuts if isinstance(cut, int)))
        self.backup.move(WHEEL_FILE)
        self.backup.copy(METRICS_FILE)
        if is_reset:
            self.backup.move(CHECKPOINT_PATH)
        elif cuts or again:
            slots_ms = [slot_ms for slot_ms in again if isinstance(slot_ms, int)]
            self._rewind(check.checkpoint, min([check.read_ms, *slots_ms]))
        await self._recover()
        return True

    def _cut(self, row: SegmentRow, pos: int) -> None:
        """Let the timer log end at a position; later segments are moved to the backup."""
        remove_seals(self.disk, f"{self.root}/timerlog")
        for segment in row.segments:
            if segment.start >= pos:
                self.backup.move(segment.path)
            elif segment.start + row.segment_size > pos:
                path = f"{self.root}/{segment.path}"
                with closing(self.disk.open(path)) as file:
                    file.truncate(row.segment_size)
                zero_behind(self.disk, path, pos - segment.start)

    def _rewind(self, checkpoint: TimerCheckpoint, read_ms: int) -> None:
        """Have the next start read the commit log and the timer topic from their beginnings."""
        self.backup.copy(CHECKPOINT_PATH)
        page = TimerCheckpoint.open(self.disk, f"{self.root}/{CHECKPOINT_PATH}")
        extension = checkpoint.extension
        page.update(
            last_read_time_ms=read_ms,
            last_timer_log_flush_pos=checkpoint.last_timer_log_flush_pos,
            last_timer_queue_offset=0,
            scan_py=0,
            precision_ms=self.timer_options.timer_precision_ms
            if extension is None
            else extension.precision_ms,
            now_ms=self.now_ms,
        )
        page.write()
        self.disk.sync_now(page.file)
        page.close()

    async def _recover(self) -> None:
        """Recover as a start does, and write what was found out (ORDERED_DURABILITY)."""
        store = MessageStore.open(
            self.disk,
            self.root,
            attrs.evolve(self.store_options, message_index_enable=False),
            now_ms=lambda: self.now_ms,
            store_host=NO_HOST,
            read_only=True,
        )
        try:
            files = TimerFiles.open(self.disk, self.root, self.timer_options)
            try:
                found = recover(files, store, self.timer_options, self.now_ms)
                timer_log = files.timer_log
                timer_log.scrub.seal_all()
                await timer_log.flush()
                files.wheel.write_dirty(files.wheel.snapshot_dirty())
                self.disk.sync_now(files.wheel.file)
                files.checkpoint.update(
                    last_read_time_ms=found.read_ms,
                    last_timer_log_flush_pos=timer_log.max_pos,
                    last_timer_queue_offset=found.queue_offset,
                    scan_py=found.scan_py,
                    precision_ms=self.timer_options.timer_precision_ms,
                    now_ms=self.now_ms,
                )
                files.checkpoint.write()
                self.disk.sync_now(files.checkpoint.file)
                text = files.metrics.text(self.now_ms)
                save_json_now(self.disk, f"{self.root}/{METRICS_FILE}", text)
            finally:
                files.close()
        finally:
            await store.aclose()
