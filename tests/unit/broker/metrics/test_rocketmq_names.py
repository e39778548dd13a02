"""Tests of RocketMQ's names on the page of metrics: there, or named in the docs as not there."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from broker_rig import Rig, send_ext
from timermq.broker.metrics.metrics_page import FRESH

OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"
NOT_THERE = "Of RocketMQ's names these are not there:"

BROKER = """
    processor_watermark broker_permission topic_number consumer_group_number
    messages_in_total messages_out_total throughput_in_total throughput_out_total message_size
    topic_create_execution_time consumer_group_create_execution_time
    producer_connections consumer_connections
    consumer_lag_messages consumer_lag_latency consumer_inflight_messages
    consumer_queueing_latency consumer_ready_messages send_to_dlq_messages_total
    commit_messages_total rollback_messages_total finish_message_latency half_messages
"""
"""``BrokerMetricsConstant`` of RocketMQ 5.3.3, as ``javap -constants`` tells it."""
REMOTING = "rpc_latency"
"""``RemotingMetricsConstant``."""
POP = """
    pop_buffer_scan_time_consume pop_revive_in_message_total pop_revive_out_message_total
    pop_revive_retry_messages_total pop_revive_lag pop_revive_latency
    pop_offset_buffer_size pop_checkpoint_buffer_size
"""
"""``PopMetricsConstant``."""
STORE = """
    storage_size storage_flush_behind_bytes storage_dispatch_behind_bytes
    storage_message_reserve_time
    timer_enqueue_lag timer_enqueue_latency timer_dequeue_lag timer_dequeue_latency
    timing_messages timer_enqueue_total timer_dequeue_total timer_message_snapshot
    delay_message_latency
    rocksdb_bytes_written rocksdb_bytes_read rocksdb_times_written_self
    rocksdb_times_written_other rocksdb_rate_cache_hit rocksdb_times_compressed
    rocksdb_read_amplification_bytes rocksdb_times_read
"""
"""``DefaultStoreMetricsConstant``."""
ROCKETMQ = {f"rocketmq_{name}" for name in f"{BROKER} {REMOTING} {POP} {STORE}".split()}

NOT_COUNTED = {
    "rocketmq_delay_message_latency",
    "rocketmq_rpc_latency",
    "rocketmq_throughput_in_total",
    "rocketmq_pop_revive_lag",
    "rocketmq_rocksdb_times_read",
}
"""Some of what the docs must name as absent."""


async def exported(rig: Rig) -> dict[str, float]:
    """Families on the page by the name that RocketMQ gives them, with their first value."""
    page = (await rig.broker.metrics_page.text()).decode()
    return {
        family.name + "_total" * (family.type == "counter"): (
            family.samples[0].value if family.samples else 0
        )
        for family in text_string_to_metric_families(page)
        if family.name.startswith("rocketmq_")
    }


def named_as_absent() -> set[str]:
    """What the docs say is not there."""
    (paragraph,) = [part for part in OPERATIONS.read_text().split("\n\n") if NOT_THERE in part]
    listed = re.sub(r"\([^)]*\)", "", paragraph.partition(NOT_THERE)[2])
    patterns = [f"rocketmq{name}" for name in re.findall(r"`…(_[a-z_]+\*?)`", listed)]
    found = {pattern: set(fnmatch.filter(ROCKETMQ, pattern)) for pattern in patterns}
    assert [pattern for pattern, names in found.items() if not names] == []
    return {name for names in found.values() for name in names}


async def test_each_name_is_there_or_named_as_absent() -> None:
    """And none is both, and there is no name that RocketMQ does not know."""
    found = set(await exported(Rig()))

    assert ROCKETMQ - found == named_as_absent()
    assert found - ROCKETMQ == set()
    assert NOT_COUNTED - named_as_absent() == set()


async def test_age_of_what_is_not_enqueued(autojump_clock: MockClock) -> None:
    """Also while nothing moves at all, where RocketMQ says 0."""
    rig = Rig()
    before = await exported(rig)
    for _ in range(2):
        rig.call(10, send_ext("T", "TIMER_DELAY_SEC\x0160\x02"), b"x")
        rig.clock.time_ms += 3_000
    await trio.sleep(FRESH)
    found = await exported(rig)

    assert before["rocketmq_timer_enqueue_latency"] == 0
    assert found["rocketmq_timer_enqueue_latency"] == 6_000
    assert found["rocketmq_timer_enqueue_lag"] == 2
