"""The checkpoint: what the timer service makes durable, and in which order (ORDERED_DURABILITY).

Values are taken first, then everything they describe is synced, then they are written::

    take   read time and scan position, queue offset, end of both logs, copies of the dirty slots
    sync   commit log up to its end as taken: delivered bodies, waiting bodies; and its checkpoint,
           for a log that ends before what is promised here is damaged, not cut by a power cut
    sync   timer log up to its end as taken
    write  the copied slots, sync the wheel: it never points past the synced timer log
    write  the checkpoint page, sync it

A sync that fails stops the service; nothing is retried on pages whose fate is unknown.

Source: Java ``TimerFlushService`` takes the values, then syncs one segment of the timer log, then
the wheel, and lets the read time run ahead of the deliveries. So a power cut may lose what was
delivered last, leave slots that point past the end of the timer log, and take units of a segment
that the checkpoint counts as written.
"""

from __future__ import annotations

import attrs
import structlog
import trio

from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.message_store import MessageStore

from ..clock.clock import Clock
from ..state.timer_options import TimerOptions
from ..state.timer_state import TimerState
from .timer_files import TimerFiles

log = structlog.get_logger("timermq.pipeline.recovery.timer_flush")


@attrs.define(eq=False, kw_only=True)
class TimerFlush:
    """Writes checkpoints, by the interval and at the end."""

    files: TimerFiles
    store: MessageStore
    state: TimerState
    options: TimerOptions
    clock: Clock
    _last: tuple[int, int, int] | None = attrs.field(default=None, init=False)
    """Read time, queue offset and timer-log end of the last checkpoint."""

    _collected_py: int = attrs.field(default=0, init=False)
    """Start of the commit log when garbage was last collected."""

    async def run(self) -> None:
        """Write a checkpoint every ``timer_flush_interval_ms`` for ever.

        Cancellation: the checkpoint on disk stays the last whole one.
        """
        while True:
            await trio.sleep(self.options.timer_flush_interval_ms / 1000)
            await self.flush()
            await self._collect_garbage()
            for _ in self.files.timer_log.bodies.learn():
                await trio.lowlevel.checkpoint()
            self._keep_moving()

    async def flush(self) -> None:
        """Write one checkpoint, unless nothing has changed since the last.

        Raises:
            StoreFailedError: A sync failed; the store takes no more messages.
        """
        try:
            await self._flush()
        except OSError as error:
            self.store.fail(error)

    async def _flush(self) -> None:
        files, state = self.files, self.state
        log_end = files.timer_log.max_pos
        now = (state.commit_read_ms, state.commit_queue_offset, log_end)
        if now == self._last:
            return
        scan_py = state.scan_py
        dirty = files.wheel.snapshot_dirty()
        metrics = files.metrics.text(self.clock.now_ms())
        await self.store.flush(noted=True)
        await files.timer_log.flush(log_end)
        try:
            files.wheel.write_dirty(dirty)
            files.checkpoint.reserve()
        except OSError as error:
            if not is_for_a_while(error):
                raise
            # The old checkpoint holds; what was written of the wheel is durable in the timer log.
            log.warning("no room for the wheel, checkpoint put off", error=str(error))
            return
        await files.disk.sync(files.wheel.file)
        read_ms, queue_offset, _ = now
        files.checkpoint.update(
            last_read_time_ms=read_ms,
            last_timer_log_flush_pos=log_end,
            last_timer_queue_offset=queue_offset,
            scan_py=scan_py,
            precision_ms=self.options.timer_precision_ms,
            now_ms=self.clock.now_ms(),
        )
        files.checkpoint.write()
        await files.disk.sync(files.checkpoint.file)
        files.checkpoint.mark_durable()
        try:
            await files.metrics.save(metrics)
        except OSError as error:
            # Counts for people; recovery counts again.
            if not is_for_a_while(error):
                raise
            log.warning("timer metrics not saved", error=str(error))
        self._last = now

    async def _collect_garbage(self) -> None:
        """Remove timer-log segments whose messages the commit log has let go of.

        Our log keeps the body of every pending timer. One that RocketMQ has cleaned may not, nor
        one that has lost a file: units that are still to be read stay, so that each message of
        which nothing is left is quarantined by name.

        Raises:
            StoreFailedError: A segment was not read or removed; the store takes no more messages.

        Source: Java ``TimerMessageStore`` start, ``deleteExpiredFileByOffsetForTimerLog``.
        """
        min_py = self.store.commit_log.min_offset
        if min_py > self._collected_py:
            durable = self.files.checkpoint.durable
            read_ms = self.state.commit_read_ms if durable is None else durable.read_ms
            needed_pos = self.files.wheel.oldest_pos(read_ms)
            try:
                await self.files.timer_log.delete_before_phy(min_py, needed_pos)
            except OSError as error:
                self.store.fail(error)
            self._collected_py = min_py

    def _keep_moving(self) -> None:
        """Have an idle reader pass the empty slots, so that a restart need not read a long tail.

        Without timers the read time would rest while other messages make the commit log grow.
        """
        precision_ms = self.options.timer_precision_ms
        present_ms = (self.clock.now_ms() - 1) // precision_ms * precision_ms
        grown = self.store.commit_log.max_offset > self.state.scan_py
        if grown and self.state.commit_read_ms < present_ms:
            self.state.slots_changed.set()
