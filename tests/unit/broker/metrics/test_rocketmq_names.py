"""Tests of RocketMQ's names on the page of metrics: there, or named in the docs as not there."""

from __future__ import annotations

import re
from pathlib import Path

import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from broker_rig import Rig, send_ext
from timermq.broker.metrics.metrics_page import FRESH

OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"
NOT_THERE = "Of RocketMQ's names these are not there:"

STORE_AND_TIMER = {
    "rocketmq_timer_enqueue_lag",
    "rocketmq_timer_enqueue_latency",
    "rocketmq_timer_dequeue_lag",
    "rocketmq_timer_dequeue_latency",
    "rocketmq_timing_messages",
    "rocketmq_timer_enqueue_total",
    "rocketmq_timer_dequeue_total",
    "rocketmq_timer_message_snapshot",
    "rocketmq_delay_message_latency",
    "rocketmq_storage_size",
    "rocketmq_storage_flush_behind_bytes",
    "rocketmq_storage_dispatch_behind_bytes",
    "rocketmq_storage_message_reserve_time",
}
"""What RocketMQ 5.3 exports of its store and its timers."""


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
    return {f"rocketmq{name}" for name in re.findall("`…(_[a-z_]+)`", listed)}


async def test_each_name_is_there_or_named_as_absent() -> None:
    """And none is both."""
    found = set(await exported(Rig()))
    absent = named_as_absent()

    assert STORE_AND_TIMER - found == STORE_AND_TIMER & absent == {"rocketmq_delay_message_latency"}
    assert found & absent == set()
    assert "rocketmq_consumer_lag_latency" in absent


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
