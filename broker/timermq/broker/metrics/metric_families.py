"""The broker in Prometheus' words: RocketMQ's names where it has them, ``timermq_`` for the rest.

Everything is read at a scrape, from counters and files that are kept anyway: a message costs
nothing.
Source: RocketMQ's ``BrokerMetricsConstant``, ``StoreMetricsConstant``, ``TimerMetrics``; names as
its Prometheus exporter writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from timermq.pipeline.clock.clock_watch import ClockState

from .lease_families import lease_families
from .metrics_snapshot import MetricsSnapshot
from .series import counter, gauge, histogram, labelled
from .topic_families import REMOTING, consumer_connections, creation_families, topic_families

OF_STORAGE = tuple(f"rocketmq_{name}" for name in ("storage_", "timer_", "timing_", "delay_"))
STORAGE = {"storage_type": "local", "storage_medium": "disk"}
"""Labels of what RocketMQ's store tells, beside those of all."""


def families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """All families of the page, made one after another: each is a small piece of work."""
    labels = {
        "cluster": snapshot.cluster_name,
        "node_type": "broker",
        "node_id": snapshot.broker_name,
    }
    for family in chain(
        _broker(snapshot),
        creation_families(snapshot),
        _bulk(snapshot),
        _store(snapshot),
        _scrub(snapshot),
        topic_families(snapshot),
        _timer(snapshot),
        _transactions(snapshot),
        _promises(snapshot),
        _clock(snapshot),
        _followers(snapshot),
        _following(snapshot),
        lease_families(snapshot),
    ):
        more = STORAGE if family.name.startswith(OF_STORAGE) else {}
        for number, sample in enumerate(family.samples):
            family.samples[number] = sample._replace(labels={**labels, **more, **sample.labels})
        yield family


def _broker(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    now = snapshot.statistics
    info = GaugeMetricFamily("timermq_info", "The program that runs", labels=["version"])
    yield labelled(info, [((snapshot.version,), 1)])
    yield gauge("rocketmq_broker_permission", "Bits: 4 read, 2 write", snapshot.permission)
    yield gauge("rocketmq_topic_number", "Topics in the table", now.topics)
    yield gauge("rocketmq_consumer_group_number", "Groups in the table", now.subscription_groups)
    names = ["language", "version", "protocol_type"]
    family = GaugeMetricFamily("rocketmq_producer_connections", "Connected producers", labels=names)
    producers = sorted(snapshot.producers.items())
    yield labelled(family, (((*values, REMOTING), count) for values, count in producers))
    yield consumer_connections(snapshot)
    yield gauge("timermq_connections", "Open connections", now.connections)
    yield counter("timermq_connections_accepted", "Connections so far", now.connections_accepted)
    access = now.access
    yield counter(
        "timermq_failed_logins",
        "Requests without the signature of an account",
        0 if access is None else access.failed_logins,
    )
    yield counter(
        "timermq_missing_rights",
        "Requests of accounts without the right",
        0 if access is None else access.missing_rights,
    )
    yield counter("timermq_tls_refused", "Connections closed before a request", now.tls_refused)
    problem = now.tls_problem or (None if access is None else access.problem)
    yield gauge(
        "timermq_security_reload_failed",
        "Changed rules or certificates are not in force",
        int(problem is not None),
    )
    yield counter(
        "timermq_connections_rejected",
        "Connections closed at once, for want of room",
        now.connections_turned_away,
    )
    yield gauge("timermq_held_pulls", "Consumers that wait for a message", now.held_pulls)
    yield gauge(
        "timermq_unflushed_answers", "Answers that wait for the disk", now.unflushed_answers
    )
    requests = CounterMetricFamily("timermq_requests", "Requests by code", labels=["request_code"])
    yield labelled(requests, [((str(code),), n) for code, n in sorted(now.requests.items())])
    yield counter("timermq_sends", "Messages that producers brought", now.send_messages)
    yield counter("timermq_sends_refused", "Send requests refused", now.send_requests_refused)
    yield counter("timermq_cpu_seconds", "Processor time, user and system", snapshot.cpu_ms / 1000)
    yield gauge(
        "timermq_memory_bytes", "Resident memory, maps of files included", snapshot.memory_size
    )
    yield gauge("timermq_memory_own_bytes", "Its anonymous part", snapshot.memory_own_size)


def _bulk(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    now = snapshot.statistics
    rows = CounterMetricFamily("timermq_bulk_rows", "Rows of bulk jobs", labels=["outcome"])
    yield labelled(rows, [(("ingested",), now.bulk_ingested), (("refused",), now.bulk_refused)])


def _store(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    store = snapshot.statistics.store
    yield gauge(
        "rocketmq_storage_size_bytes",
        "Bytes of the commit log",
        store.max_phy_offset - store.min_phy_offset,
    )
    yield gauge(
        "rocketmq_storage_flush_behind_bytes",
        "Bytes of the commit log that are not synced",
        store.max_phy_offset - store.flushed_where,
    )
    yield gauge(
        "rocketmq_storage_dispatch_behind_bytes",
        "Bytes of the commit log that are in no queue yet",
        store.max_phy_offset - store.dispatched_to,
    )
    yield gauge(
        "rocketmq_storage_message_reserve_time_milliseconds",
        "Age of the oldest message",
        snapshot.message_reserve_ms,
    )
    yield counter("timermq_stored_messages", "Records appended", store.put_count)
    yield counter("timermq_stored_bytes", "Bytes of them", store.put_size)
    yield counter("timermq_flushes", "Syncs of the commit log", store.flush_count)
    yield gauge("timermq_disk_used_ratio", "Used part of the disk, 0 to 1", store.disk_used_ratio)
    yield gauge(
        "timermq_store_refuses", "1 while sends are refused", float(store.refusal is not None)
    )


def _scrub(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """The pass over the bytes at rest, what it found damaged, and what it repaired."""
    scrub = snapshot.statistics.scrub
    yield gauge(
        "timermq_scrub_done_ratio",
        "Part of the pass over the bytes at rest that is done, 0 to 1; 1 between two passes",
        1.0 if scrub.done_ratio is None else scrub.done_ratio,
    )
    yield gauge(
        "timermq_scrub_whole_timestamp_seconds",
        "When the last whole pass ended, 0 without one",
        scrub.whole_ms / 1000,
    )
    yield gauge("timermq_scrub_left", "Damaged places that the scrub could not repair", scrub.left)
    yield counter("timermq_scrub_passes", "Whole passes", scrub.passes)
    yield counter("timermq_scrub_read_bytes", "Bytes compared", scrub.size)
    yield counter("timermq_scrub_damaged", "Places found damaged at rest", scrub.damaged)
    yield counter("timermq_scrub_repaired", "Those of them that were repaired", scrub.repaired)
    yield counter(
        "timermq_sectors_put_back",
        "Damaged sectors of the commit log that were put back as another replica has them",
        scrub.put_back,
    )


def _timer(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    timer = snapshot.statistics.timer
    yield gauge(
        "rocketmq_timer_enqueue_lag",
        "Stored messages that have no place in the wheel yet",
        max(0, timer.queue_offset_max - timer.commit_queue_offset),
    )
    yield gauge(
        "rocketmq_timer_enqueue_latency_milliseconds",
        "Age of the oldest message that has no place in the wheel yet",
        snapshot.enqueue_lag_ms,
    )
    yield gauge(
        "rocketmq_timer_dequeue_lag", "Messages in slots that are not closed", timer.pending
    )
    yield gauge(
        "rocketmq_timer_dequeue_latency_milliseconds",
        "How long the oldest slot that is not closed is over",
        snapshot.read_lag_ms,
    )
    yield counter("rocketmq_timer_enqueue", "Units linked into the wheel", timer.enqueued)
    yield counter("rocketmq_timer_dequeue", "Messages delivered to their topics", timer.delivered)
    yield labelled(
        GaugeMetricFamily(
            "rocketmq_timer_message_snapshot",
            "Messages due within so many seconds, but not within the bound before",
            labels=["timer_bound_s"],
        ),
        [((str(bound),), count) for bound, count in snapshot.due_within.items()],
    )
    yield counter("timermq_rolled", "Messages enqueued again on their way", timer.rolled)
    yield counter("timermq_cancelled", "Messages cancelled", timer.cancelled)
    refused = CounterMetricFamily(
        "timermq_delays_refused", "Delay requests refused, by rule", labels=["rule"]
    )
    yield labelled(refused, [((rule,), n) for rule, n in sorted(timer.refused.items())])


def _transactions(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Transactions: open, ended, and asked about."""
    now = snapshot.statistics.transactions
    yield gauge(
        "rocketmq_half_messages", "Transactions without a decision of their producer", now.open
    )
    yield counter("rocketmq_commit_messages", "Transactions committed", now.committed)
    yield counter("rocketmq_rollback_messages", "Transactions rolled back", now.rolled_back)
    yield histogram(
        "rocketmq_finish_message_latency_milliseconds",
        "From birth to commit of transactions, in seconds, as RocketMQ has it under this name",
        [],
        [((), snapshot.commit_latency)],
    )
    yield counter("timermq_transaction_checks", "Times that producers were asked", now.checks)
    yield counter(
        "timermq_transactions_discarded",
        "Given up after the last check: in TRANS_CHECK_MAX_TIME_TOPIC",
        now.discarded,
    )


def _promises(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Lateness, and everything that breaks a promise or may come to it."""
    timer = snapshot.statistics.timer
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
    yield gauge(
        "timermq_lateness_max_seconds", "The worst since the start", timer.lateness_max_ms / 1000
    )
    yield counter("timermq_early", "Deliveries before their moment: a broken promise", timer.early)
    yield counter("timermq_missing", "Records gone from the log before delivery", timer.missing)
    yield counter(
        "timermq_duplicates_skipped", "Left out after a restart: done before", timer.repeated
    )
    yield gauge("timermq_quarantined_messages", "Messages in quarantine", timer.quarantined)
    yield counter("timermq_quarantined", "Messages put into quarantine", timer.set_aside)
    yield counter("timermq_retried", "Puts retried: the store could not take them", timer.retried)
    retried = GaugeMetricFamily(
        "timermq_backoff_messages",
        "Messages retried with backoff: the store does not take them now",
        labels=["stage"],
    )
    stages = (("enqueue", timer.enqueue_backoff), ("deliver", timer.deliver_backoff))
    yield labelled(retried, [((stage,), held.count) for stage, held in stages])


def _followers(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """How far each follower is that is linked, and how many are in sync."""
    rows = snapshot.statistics.followers
    named = [((row.name,), row) for row in rows]
    yield gauge(
        "timermq_replicas_in_sync",
        "This broker and the followers that have everything that is confirmed",
        1 + sum(row.is_in_sync for row in rows),
    )
    behind = GaugeMetricFamily(
        "timermq_follower_behind_bytes",
        "Bytes of the log that a follower has not acknowledged",
        labels=["follower"],
    )
    yield labelled(behind, ((labels, row.behind) for labels, row in named))
    silent = GaugeMetricFamily(
        "timermq_follower_silent_seconds",
        "Since a follower that lacks something has acknowledged something new",
        labels=["follower"],
    )
    yield labelled(silent, ((labels, row.silent_ms / 1000) for labels, row in named))
    yield counter(
        "timermq_followers_refused",
        "Links of followers that were refused",
        snapshot.statistics.followers_refused,
    )


def _following(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Which role it has, and how far a follower is behind its master."""
    found = snapshot.statistics.following
    yield gauge("timermq_is_master", "Whether it leads: 0 of a follower", found is None)
    yield gauge(
        "timermq_epoch",
        "The newest epoch of the log, which grows with each change of the master; 0: none",
        snapshot.statistics.epoch,
    )
    if found is None:
        return
    yield gauge("timermq_master_linked", "Whether the master's log comes in", found.is_linked)
    yield gauge(
        "timermq_master_behind_bytes",
        "Bytes of the master's log that are not copied, as far as it has told",
        found.behind,
    )
    if found.behind_ms is not None:
        yield gauge(
            "timermq_master_behind_seconds",
            "Since everything was copied that the master had told of",
            found.behind_ms / 1000,
        )


def _clock(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    clock = snapshot.statistics.clock
    is_safe = clock.state is ClockState.SAFE
    yield gauge("timermq_clock_safe", "1 while the wall clock is trusted", float(is_safe))
    yield gauge(
        "timermq_clock_off_seconds",
        "How far the wall clock is ahead of the trusted time, or behind",
        clock.off_ms / 1000,
    )
    steps = CounterMetricFamily(
        "timermq_clock_steps", "Jumps of the wall clock", labels=["direction"]
    )
    counts = (("forward", clock.steps_forward), ("backward", clock.steps_backward))
    yield labelled(steps, [((direction,), count) for direction, count in counts])
    if clock.drift_ppm is not None:
        yield gauge("timermq_clock_drift_ppm", "Drift against the steady clock", clock.drift_ppm)
