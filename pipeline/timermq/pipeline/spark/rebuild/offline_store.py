"""A store that stands still: its log opened as a start would, its timer files not believed.

A timer checkpoint that is damaged counts as none, and no wheel or timer log is opened: what is
wrong with them may be why they are rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import attrs
import trio

from timermq.timerlog import TimerCheckpoint, TimerMetrics
from timermq.timerstore.errors import StoreFormatError, StoreKindError
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

from ...recovery.timer_engine import TIMELINE_DIRECTORY, TimerEngines
from ...state.timer_options import TimerOptions
from .plan import RebuildPlan


@attrs.frozen(kw_only=True)
class StoppedStore:
    """The store, and what is to be done with it."""

    store: MessageStore
    checkpoint: TimerCheckpoint
    """Of the timers; all zero if there is none."""
    plan: RebuildPlan
    options: TimerOptions

    def topics(self) -> set[str]:
        """Topics that pending messages may have."""
        metrics = TimerMetrics.load(OsDisk(), f"{self.store.root}/config/timermetrics")
        return {queue.topic for queue in self.store.queues()} | set(metrics.counts())

    def sync_log(self) -> None:
        """Make durable what was read of the log (blocking).

        Raises:
            OSError: The disk failed.
        """
        log = self.store.commit_log
        OsDisk().sync_now(*(segment.file for segment in log.segments))


@contextmanager
def open_stopped(
    root: str,
    store_options: StoreOptions,
    timer_options: TimerOptions,
    now_ms: Callable[[], int],
) -> Generator[StoppedStore]:
    """Open the store in a directory, read only; it is closed when the block ends.

    Args:
        root: Its directory.
        store_options: With the sizes that its files have.
        timer_options: The same.
        now_ms: The present.

    Raises:
        StoreKindError: RocksDB timers were on: what they delivered names no record.
        StoreError: Its log is damaged, or its files do not fit the settings.
    """
    if TimerEngines.of(OsDisk(), root).has_timeline:
        raise StoreKindError(
            f"{root}/{TIMELINE_DIRECTORY}: expected timers of RocketMQ's wheel alone, found "
            "RocksDB timers: a start makes timer log and wheel again, if "
            f"{root}/config/timercheck is moved out of the store"
        )
    # Keys are not looked up, and a damaged index must not be in the way.
    store_options = attrs.evolve(store_options, message_index_enable=False)
    store = MessageStore.open(
        OsDisk(), root, store_options, now_ms=now_ms, store_host=NO_HOST, read_only=True
    )
    try:
        checkpoint = _checkpoint(f"{root}/config/timercheck")
        plan = RebuildPlan.of(store, checkpoint.last_read_time_ms, timer_options, now_ms())
        yield StoppedStore(store=store, checkpoint=checkpoint, plan=plan, options=timer_options)
    finally:
        trio.run(store.aclose)


def _checkpoint(path: str) -> TimerCheckpoint:
    try:
        checkpoint = TimerCheckpoint.open(OsDisk(), path, read_only=True)
    except StoreFormatError:
        return TimerCheckpoint()
    checkpoint.close()
    return checkpoint
