"""The page of metrics: one look at the broker, written family by family.

A scrape must not make messages late, so other tasks run between two families, and who asks again
within a second is given the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import trio
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from timermq.pipeline.timer_counts import TimerStatistics
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.pipeline.timer_record import TIMER_TOPIC
from timermq.pipeline.wheel_occupancy import WheelOccupancy
from timermq.timerstore.message_store import MessageStore

from ..broker_statistics import BrokerStatistics
from ..options import BrokerOptions
from ..processors import Tables
from ..watching.watch_snapshot import SnapshotSource
from .metric_families import families
from .metrics_look import (
    TIMER_BOUNDS_S,
    MetricsLook,
    connections,
    group_lags,
    message_types,
    stored_by_topic,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH = 1.0
"""Seconds for which a page is given again."""


@attrs.define(eq=False, kw_only=True)
class MetricsPage:
    """Where the page comes from."""

    options: BrokerOptions
    tables: Tables
    timer_store: TimerMessageStore
    source: SnapshotSource
    statistics: Callable[[], BrokerStatistics]
    _text: bytes = attrs.field(default=b"", init=False)
    _made_at: float | None = attrs.field(default=None, init=False)
    """trio's time of the page; None: there is none."""
    _making: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def text(self) -> bytes:
        """The page, at most a second old.

        Cancellation: nothing of a page that is half done stays.
        """
        async with self._making:
            now = trio.current_time()
            if self._made_at is None or now - self._made_at >= FRESH:
                parts: list[bytes] = []
                for family in families(self.look()):
                    parts.append(generate_latest(_One(family)))
                    await trio.lowlevel.checkpoint()
                self._text, self._made_at = b"".join(parts), now
            return self._text

    def look(self) -> MetricsLook:
        """The broker as it is now."""
        statistics, options = self.statistics(), self.options
        timer, store = statistics.timer, self.timer_store.store
        occupancy = WheelOccupancy.of(
            self.timer_store.live(), self.timer_store.options.timer_precision_ms
        )
        cpu_ms, memory_size, memory_own_size = self.source.process()
        producers, consumers = connections(self.tables.clients)
        queues = list(store.queues())
        ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in queues}
        oldest_ms = store.commit_log.earliest_store_ms()
        return MetricsLook(
            broker_name=options.broker_name,
            cluster_name=options.broker_cluster_name,
            version=self.source.version,
            permission=options.broker_permission,
            series_max=options.metrics_series_max,
            statistics=statistics,
            cpu_ms=cpu_ms,
            memory_size=memory_size,
            memory_own_size=memory_own_size,
            message_reserve_ms=0 if oldest_ms is None else max(0, timer.now_ms - oldest_ms),
            stored_by_topic=stored_by_topic(queues),
            message_types=message_types(self.tables.topics.all()),
            pulled=dict(self.tables.rates.got),
            pulled_size=dict(self.tables.rates.got_size),
            lags=list(group_lags(self.tables.offsets, ends)),
            due_within=_due_within(occupancy, timer.now_ms),
            enqueue_lag_ms=_enqueue_lag_ms(store, timer),
            read_lag_ms=occupancy.overdue_ms(timer.now_ms),
            producers=producers,
            consumers=consumers,
        )


@attrs.frozen
class _One(Collector):
    """One family, as the library wants to be given them."""

    family: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.family


def _enqueue_lag_ms(store: MessageStore, timer: TimerStatistics) -> int:
    if timer.commit_queue_offset >= timer.queue_offset_max:
        return 0
    stored_ms = store.store_ms_at(TIMER_TOPIC, 0, timer.commit_queue_offset)
    return max(0, timer.now_ms - stored_ms) if stored_ms >= 0 else 0


def _due_within(occupancy: WheelOccupancy, now_ms: int) -> dict[int, int]:
    within = [
        occupancy.buckets(from_ms=now_ms, width_ms=bound * 1000, count=1)[0]
        for bound in TIMER_BOUNDS_S
    ]
    before = [0, *within[:-1]]
    rows = zip(TIMER_BOUNDS_S, within, before, strict=True)
    return {bound: upto - earlier for bound, upto, earlier in rows}
