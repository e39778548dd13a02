"""Tests of RocketMQ's names on the page of metrics: there, or named in the docs as not there."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

import trio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from broker_rig import Rig, pull_ext, running_broker, send_ext
from golden_stores import GOLDEN
from timermq.broker.metrics.metrics_page import FRESH

OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"
COMMON = {"cluster", "node_type", "node_id"}
HEARTBEAT = (
    b'{"clientID":"c","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[{"groupName":"G",'
    b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[],'
    b'"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET"}]}'
)
NOT_THERE = "Of RocketMQ's names these are not there:"

KNOWN = json.loads((GOLDEN / "metrics.json").read_text())
"""Families that RocketMQ 5.3.3 exports for Prometheus: what a real broker printed, with labels and
bounds, after each of its kinds of requests. Two came from its sources: nothing could be seen of
them."""
UNSEEN = {"rocketmq_send_to_dlq_messages_total", "rocketmq_rocksdb_times_read"}
ROCKETMQ = {*KNOWN, *UNSEEN}
NOT_TOLD_APART = {
    "rocketmq_commit_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_half_messages",
    "rocketmq_finish_message_latency_milliseconds",
    "rocketmq_timer_enqueue_total",
    "rocketmq_timer_dequeue_total",
}
"""Families without the label ``topic`` here, which the docs say."""


async def families(rig: Rig) -> dict[str, Metric]:
    """Families on the page by the name that RocketMQ gives them."""
    page = (await rig.broker.metrics_page.text()).decode()
    return {
        family.name + "_total" * (family.type == "counter"): family
        for family in text_string_to_metric_families(page)
        if family.name.startswith("rocketmq_")
    }


async def exported(rig: Rig) -> dict[str, float]:
    """The first value of each."""
    return {
        name: family.samples[0].value if family.samples else 0
        for name, family in (await families(rig)).items()
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
    found = set(await families(Rig()))

    assert ROCKETMQ - found == named_as_absent()
    assert found - ROCKETMQ == set()


async def test_labels_and_bounds_are_those_of_rocketmq(autojump_clock: MockClock) -> None:
    """Each label that RocketMQ has, but where the docs say otherwise; the same bounds."""
    async with running_broker() as running:
        peer = running.connect()
        await running.broker.metrics_page.text()
        await running.connect().call(34, body=HEARTBEAT)
        await peer.call(10, send_ext("T", "TIMER_DELAY_SEC\x0160\x02"), b"x")
        await peer.call(10, send_ext("T"), b"x")
        await peer.call(11, pull_ext("T"))
        await peer.call(17, {"topic": "U", "readQueueNums": "1", "writeQueueNums": "1"})
        await peer.call(200, body=b'{"groupName":"V"}')
        await trio.sleep(FRESH + 1)
        page = (await running.broker.metrics_page.text()).decode()
    wrong: dict[str, object] = {}
    for family in text_string_to_metric_families(page):
        name = family.name + "_total" * (family.type == "counter")
        known = KNOWN.get(name)
        if known is None:
            continue
        assert family.samples, name
        labels = {*family.samples[0].labels} - COMMON - {"le"}
        missing = {*known["labels"]} - labels - ({"topic"} if name in NOT_TOLD_APART else set())
        bounds = [float(one.labels["le"]) for one in family.samples if "le" in one.labels]
        if missing or sorted({*bounds} - {float("inf")}) != known["bounds"]:
            wrong[name] = missing, bounds

    assert wrong == {}


async def test_age_of_what_is_not_enqueued(autojump_clock: MockClock) -> None:
    """Also while nothing moves at all, where RocketMQ says 0."""
    rig = Rig()
    before = await exported(rig)
    for _ in range(2):
        rig.call(10, send_ext("T", "TIMER_DELAY_SEC\x0160\x02"), b"x")
        rig.clock.time_ms += 3_000
    await trio.sleep(FRESH)
    found = await exported(rig)

    assert before["rocketmq_timer_enqueue_latency_milliseconds"] == 0
    assert found["rocketmq_timer_enqueue_latency_milliseconds"] == 6_000
    assert found["rocketmq_timer_enqueue_lag"] == 2
