"""The broker in Prometheus' words: RocketMQ's names where it has them, ``timermq_`` for the rest.

Everything is read when somebody asks, from counters that are kept anyway: a message costs nothing.
Families that grow with topics or groups have a limit; what is beyond it is added up under ``*``,
which is the name of nothing.

Source: RocketMQ's ``BrokerMetricsConstant``, ``StoreMetricsConstant``, ``TimerMetrics``; names as
its Prometheus exporter writes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from timermq.pipeline.clock_watch import ClockState
from timermq.timerstore.topic_name import DLQ_GROUP_TOPIC_PREFIX, RETRY_GROUP_TOPIC_PREFIX

from .metrics_look import MetricsLook

REST = "*"
"""Label of what is beyond the limit of a family."""


def families(look: MetricsLook) -> Iterator[Metric]:
    """All families, one after another: each is a small piece of work."""
    labels = {
        "cluster": look.cluster_name,
        "node_type": "broker",
        "node_id": look.broker_name,
    }
    for family in (
        *_broker(look),
        *_bulk(look),
        *_store(look),
        *_topics(look),
        *_timer(look),
        *_transactions(look),
        *_promises(look),
        *_clock(look),
    ):
        for number, sample in enumerate(family.samples):
            family.samples[number] = sample._replace(labels={**labels, **sample.labels})
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _labelled(family: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
    for values, value in rows:
        family.add_metric(list(values), value)
    return family


def _largest(
    rows: Iterable[tuple[tuple[str, ...], int]], series_max: int
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The rows with the largest values, by name; what is left of the others as one."""
    rows = list(rows)
    kept = heapq.nlargest(series_max, rows, key=lambda row: row[1])
    yield from sorted(kept)
    if len(rows) > len(kept):
        rest = sum(value for _, value in rows) - sum(value for _, value in kept)
        yield (REST,) * len(rows[0][0]), rest


def _broker(look: MetricsLook) -> Iterator[Metric]:
    now = look.statistics
    info = GaugeMetricFamily("timermq_info", "The program that runs", labels=["version"])
    yield _labelled(info, [((look.version,), 1)])
    yield _gauge("rocketmq_broker_permission", "Bits: 4 read, 2 write", look.permission)
    yield _gauge("rocketmq_topic_number", "Topics in the table", now.topics)
    yield _gauge("rocketmq_consumer_group_number", "Groups in the table", now.subscription_groups)
    names = ["language", "version"]
    family = GaugeMetricFamily("rocketmq_producer_connections", "Connected producers", labels=names)
    yield _labelled(family, sorted(look.producers.items()))
    names = ["consumer_group", "language", "version", "consume_mode"]
    family = GaugeMetricFamily("rocketmq_consumer_connections", "Connected consumers", labels=names)
    yield _labelled(family, _largest(look.consumers.items(), look.series_max))
    yield _gauge("timermq_connections", "Open connections", now.connections)
    yield _counter("timermq_connections_accepted", "Connections so far", now.connections_accepted)
    access = now.access
    yield _counter(
        "timermq_failed_logins",
        "Requests that nobody with an account signed",
        0 if access is None else access.failed_logins,
    )
    yield _counter(
        "timermq_missing_rights",
        "Requests of accounts without the right",
        0 if access is None else access.missing_rights,
    )
    yield _counter("timermq_tls_refused", "Connections closed before a request", now.tls_refused)
    problem = now.tls_problem or (None if access is None else access.problem)
    yield _gauge(
        "timermq_door_change_refused",
        "Changed rules or certificates are not in force",
        int(problem is not None),
    )
    yield _counter(
        "timermq_connections_turned_away",
        "Connections closed at once, for want of room",
        now.connections_turned_away,
    )
    yield _gauge("timermq_held_pulls", "Consumers that wait for a message", now.held_pulls)
    yield _gauge(
        "timermq_unflushed_answers", "Answers that wait for the disk", now.unflushed_answers
    )
    requests = CounterMetricFamily("timermq_requests", "Requests by code", labels=["request_code"])
    yield _labelled(requests, [((str(code),), n) for code, n in sorted(now.requests.items())])
    yield _counter("timermq_sends", "Messages that producers brought", now.send_messages)
    yield _counter("timermq_sends_refused", "Send requests refused", now.send_requests_refused)
    yield _counter("timermq_cpu_seconds", "Processor time, user and system", look.cpu_ms / 1000)
    yield _gauge(
        "timermq_memory_bytes", "Resident memory, maps of files included", look.memory_size
    )
    yield _gauge("timermq_memory_own_bytes", "Its anonymous part", look.memory_own_size)


def _bulk(look: MetricsLook) -> Iterator[Metric]:
    now = look.statistics
    rows = CounterMetricFamily("timermq_bulk_rows", "Rows of bulk jobs", labels=["outcome"])
    yield _labelled(rows, [(("adopted",), now.bulk_adopted), (("refused",), now.bulk_refused)])


def _store(look: MetricsLook) -> Iterator[Metric]:
    store = look.statistics.store
    yield _gauge(
        "rocketmq_storage_size",
        "Bytes of the commit log",
        store.max_phy_offset - store.min_phy_offset,
    )
    yield _gauge(
        "rocketmq_storage_flush_behind_bytes",
        "Bytes of the commit log that are not synced",
        store.max_phy_offset - store.flushed_where,
    )
    yield _gauge(
        "rocketmq_storage_dispatch_behind_bytes",
        "Bytes of the commit log that are in no queue yet",
        store.max_phy_offset - store.dispatched_to,
    )
    yield _gauge(
        "rocketmq_storage_message_reserve_time",
        "Age of the oldest message, milliseconds",
        look.message_reserve_ms,
    )
    yield _counter("timermq_stored_messages", "Records appended", store.put_count)
    yield _counter("timermq_stored_bytes", "Bytes of them", store.put_size)
    yield _counter("timermq_flushes", "Syncs of the commit log", store.flush_count)
    yield _gauge("timermq_disk_used_ratio", "Used part of the disk, 0 to 1", store.disk_used_ratio)
    yield _gauge(
        "timermq_store_refuses", "1 while sends are refused", float(store.refusal is not None)
    )


def _topics(look: MetricsLook) -> Iterator[Metric]:
    stored = (((topic,), count) for topic, count in look.stored_by_topic.items())
    yield _labelled(
        CounterMetricFamily(
            "rocketmq_messages_in",
            "Messages stored on a topic since it began; delayed ones when they are delivered",
            labels=["topic"],
        ),
        _largest(stored, look.series_max),
    )
    yield _labelled(
        CounterMetricFamily(
            "rocketmq_messages_out",
            "Messages that a group was given since the start",
            labels=["topic", "consumer_group", "is_retry"],
        ),
        _largest(
            (
                ((topic, group, _is_retry(topic)), count)
                for (topic, group), count in look.pulled.items()
            ),
            look.series_max,
        ),
    )
    given_up = (
        ((topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX),), count)
        for topic, count in look.stored_by_topic.items()
        if topic.startswith(DLQ_GROUP_TOPIC_PREFIX)
    )
    yield _labelled(
        CounterMetricFamily(
            "rocketmq_send_to_dlq_messages",
            "Messages that a group gave up since its dead letters began",
            labels=["consumer_group"],
        ),
        _largest(given_up, look.series_max),
    )
    lags = (((lag.group, lag.topic, _is_retry(lag.topic)), lag.messages) for lag in look.lags)
    yield _labelled(
        GaugeMetricFamily(
            "rocketmq_consumer_lag_messages",
            "Messages that a group has not consumed",
            labels=["consumer_group", "topic", "is_retry"],
        ),
        _largest(lags, look.series_max),
    )
    waiting = look.statistics.timer.pending_by_topic.items()
    yield _labelled(
        GaugeMetricFamily(
            "rocketmq_timing_messages", "Messages that wait, by their topic", labels=["topic"]
        ),
        _largest((((topic,), count) for topic, count in waiting if count > 0), look.series_max),
    )


def _is_retry(topic: str) -> str:
    return str(topic.startswith(RETRY_GROUP_TOPIC_PREFIX)).lower()


def _timer(look: MetricsLook) -> Iterator[Metric]:
    timer = look.statistics.timer
    yield _gauge(
        "rocketmq_timer_enqueue_lag",
        "Stored messages that have no place in the wheel yet",
        max(0, timer.queue_offset_max - timer.commit_queue_offset),
    )
    yield _gauge(
        "rocketmq_timer_enqueue_latency",
        "Age of the oldest message that has no place in the wheel yet, milliseconds",
        look.enqueue_lag_ms,
    )
    yield _gauge(
        "rocketmq_timer_dequeue_lag", "Messages in slots that are not closed", timer.pending
    )
    yield _gauge(
        "rocketmq_timer_dequeue_latency",
        "How long the oldest slot that is not closed is over, milliseconds",
        look.read_lag_ms,
    )
    yield _counter("rocketmq_timer_enqueue", "Units linked into the wheel", timer.enqueued)
    yield _counter("rocketmq_timer_dequeue", "Messages delivered to their topics", timer.delivered)
    yield _labelled(
        GaugeMetricFamily(
            "rocketmq_timer_message_snapshot",
            "Messages due within so many seconds, but not within the bound before",
            labels=["timer_bound_s"],
        ),
        [((str(bound),), count) for bound, count in look.due_within.items()],
    )
    yield _counter("timermq_rolled", "Messages enqueued again on their way", timer.rolled)
    yield _counter("timermq_cancelled", "Messages taken back", timer.cancelled)
    refused = CounterMetricFamily(
        "timermq_delays_refused", "Delay requests refused, by rule", labels=["rule"]
    )
    yield _labelled(refused, [((rule,), n) for rule, n in sorted(timer.refused.items())])


def _transactions(look: MetricsLook) -> Iterator[Metric]:
    """What producers decide about, and what they do not."""
    now = look.statistics.transactions
    yield _gauge("rocketmq_half_messages", "Transactions that nobody has decided about", now.open)
    yield _counter("rocketmq_commit_messages", "Transactions committed", now.committed)
    yield _counter("rocketmq_rollback_messages", "Transactions rolled back", now.rolled_back)
    yield _counter("timermq_transaction_checks", "Times that producers were asked", now.checks)
    yield _counter(
        "timermq_transactions_discarded",
        "Given up after the last check: in TRANS_CHECK_MAX_TIME_TOPIC",
        now.discarded,
    )


def _promises(look: MetricsLook) -> Iterator[Metric]:
    """What is promised, and what breaks it."""
    timer = look.statistics.timer
    totals = 0
    buckets: list[tuple[str, float]] = []
    bounds = [f"{bound / 1000:g}" for bound in timer.lateness_bounds_ms]
    for bound, count in zip([*bounds, "+Inf"], timer.lateness, strict=True):
        totals += count
        buckets.append((bound, totals))
    yield HistogramMetricFamily(
        "timermq_lateness_seconds",
        "Delivery after the moment asked for",
        buckets=buckets,
        sum_value=timer.lateness_sum_ms / 1000,
    )
    yield _gauge(
        "timermq_lateness_max_seconds", "The worst since the start", timer.lateness_max_ms / 1000
    )
    yield _counter("timermq_early", "Deliveries before their moment: a broken promise", timer.early)
    yield _counter("timermq_missing", "Records gone from the log before delivery", timer.missing)
    yield _counter("timermq_repeated", "Left out after a restart: done before it", timer.repeated)
    yield _gauge("timermq_quarantined_messages", "Messages in quarantine", timer.quarantined)
    yield _counter("timermq_set_aside", "Messages put into quarantine", timer.set_aside)
    yield _counter("timermq_retried", "Puts repeated: the store could not take them", timer.retried)
    held_up = GaugeMetricFamily(
        "timermq_held_up_messages", "Messages that the store does not take now", labels=["stage"]
    )
    stages = (("enqueue", timer.enqueue_held_up), ("deliver", timer.deliver_held_up))
    yield _labelled(held_up, [((stage,), held.count) for stage, held in stages])


def _clock(look: MetricsLook) -> Iterator[Metric]:
    clock = look.statistics.clock
    is_safe = clock.state is ClockState.SAFE
    yield _gauge("timermq_clock_safe", "1 while the wall clock is trusted", float(is_safe))
    yield _gauge(
        "timermq_clock_off_seconds",
        "How far the wall clock is ahead of what is trusted, or behind",
        clock.off_ms / 1000,
    )
    steps = CounterMetricFamily(
        "timermq_clock_steps", "Jumps of the wall clock", labels=["direction"]
    )
    counts = (("forward", clock.steps_forward), ("backward", clock.steps_backward))
    yield _labelled(steps, [((direction,), count) for direction, count in counts])
    if clock.drift_ppm is not None:
        yield _gauge("timermq_clock_drift_ppm", "Drift against the steady clock", clock.drift_ppm)
