"""The page of metrics: one snapshot of the broker, written family by family.

A scrape must not make messages late, so other tasks run between two of its pieces, and a
second scrape within a second is given the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import trio
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_counts import TimerStatistics
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.pipeline.wheel_occupancy import WheelOccupancy
from timermq.timerstore.message_store import MessageStore

from ..broker_statistics import BrokerStatistics
from ..histogram import Histogram
from ..options import BrokerOptions
from ..tables import Tables
from ..transactions.transactions import Transactions
from ..watching.watch_snapshot import SnapshotSource
from .group_progress import GroupProgress, look_up_ages, progress_of_groups
from .metric_families import families
from .metrics_snapshot import (
    TIMER_BOUNDS_S,
    MetricsSnapshot,
    connections,
    message_types,
    queue_ends,
    stored_by_topic,
)
from .requested_delays import RequestedDelays

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH = 1.0
"""Seconds for which a page is given again."""


@attrs.define
class _Reading:
    """Values read in pieces for one page, before the snapshot."""

    ends: dict[tuple[str, int], int] = attrs.field(factory=dict[tuple[str, int], int])
    delays: dict[str, Histogram] = attrs.field(factory=dict[str, Histogram])
    groups: list[GroupProgress] = attrs.field(factory=list[GroupProgress])


@attrs.define(eq=False, kw_only=True)
class MetricsPage:
    """The page ``/metrics``, made of these sources and kept for a second."""

    options: BrokerOptions
    tables: Tables
    timer_store: TimerMessageStore
    transactions: Transactions
    source: SnapshotSource
    statistics: Callable[[], BrokerStatistics]
    _text: bytes = attrs.field(default=b"", init=False)
    _made_at: float | None = attrs.field(default=None, init=False)
    """trio's time of the page; None: there is none."""
    _making: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _delays: RequestedDelays = attrs.field(factory=RequestedDelays, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin the counts that are read from files since the start."""
        self._delays.begin(self.timer_store.files.timer_log)

    async def text(self) -> bytes:
        """The page, at most a second old.

        Cancellation: nothing of a page that is half done stays.
        """
        async with self._making:
            now = trio.current_time()
            if self._made_at is None or now - self._made_at >= FRESH:
                reading = _Reading()
                for _ in self._read(reading):
                    await trio.lowlevel.checkpoint()
                parts: list[bytes] = []
                for family in families(self.snapshot(reading)):
                    parts.append(generate_latest(_One(family)))
                    await trio.lowlevel.checkpoint()
                self._text, self._made_at = b"".join(parts), now
            return self._text

    def _read(self, reading: _Reading) -> Iterator[None]:
        """Read what grows with queues, topics and groups, in pieces."""
        tables, store = self.tables, self.timer_store.store
        yield from tables.stats.sizes.read(store)
        yield from self._delays.read(self.timer_store.files.timer_log)
        topics = [one.topic_name for one in tables.topics.all()]
        reading.delays = yield from self._delays.by_topic(topics)
        reading.ends = yield from queue_ends(store.queues())
        reading.groups = yield from progress_of_groups(
            tables.offsets, tables.rates.pulled_to, tables.rates.given_to, reading.ends
        )
        now_ms = self.statistics().timer.now_ms
        series_max = self.options.metrics_series_max
        yield from look_up_ages(reading.groups, series_max, now_ms, self._store_ms)

    def _store_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of a message, or of the first behind it that is still there."""
        store = self.timer_store.store
        queue = store.queue(topic, queue_id)
        least = 0 if queue is None else queue.min_offset
        return store.store_ms_at(topic, queue_id, max(offset, least))

    def snapshot(self, reading: _Reading) -> MetricsSnapshot:
        """The broker as it is now, with the values that were read before."""
        statistics, options = self.statistics(), self.options
        timer, store = statistics.timer, self.timer_store.store
        occupancy = WheelOccupancy.of(
            self.timer_store.live(), self.timer_store.options.timer_precision_ms
        )
        cpu_ms, memory_size, memory_own_size = self.source.process()
        producers, consumers = connections(self.tables.clients)
        got = self.tables.rates.got_by_group
        oldest_ms = store.commit_log.earliest_store_ms()
        return MetricsSnapshot(
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
            stored_by_topic=stored_by_topic(reading.ends),
            message_types=message_types(self.tables.topics.all()),
            pulled={place: one.count for place, one in got.items()},
            pulled_size={place: one.size for place, one in got.items()},
            sizes=self.tables.stats.sizes.by_topic,
            delays=reading.delays,
            groups=reading.groups,
            topics_made=self.tables.topics_made.by_outcome,
            groups_made=self.tables.groups_made.by_outcome,
            commit_latency=self.transactions.commit_latency,
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
