"""Tests of what a page of metrics is made of, apart from the broker."""

from __future__ import annotations

import pytest

from broker_rig import Rig
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.metrics.asked_delays import AskedDelays
from timermq.broker.metrics.group_progress import GroupProgress, look_up_ages, progress_of_groups
from timermq.broker.metrics.metrics_look import version_name
from timermq.broker.metrics.stored_sizes import StoredSizes


def offsets_of(*committed: tuple[int, int]) -> ConsumerOffsetTable:
    """What group G has committed of topic T: queue and offset."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for queue_id, offset in committed:
        offsets.commit(group="G", topic="T", queue_id=queue_id, offset=offset)
    return offsets


def test_lag_is_what_lies_behind_the_commits() -> None:
    """Queues are added up; one that is gone, or was committed beyond its end, adds nothing."""
    offsets = offsets_of((0, 3), (1, 10), (2, 5))

    assert progress_of_groups(offsets, {}, {("T", 0): 7, ("T", 1): 8}) == [
        GroupProgress(group="G", topic="T", lag=4, uncommitted=[(0, 3)])
    ]


def test_what_was_given() -> None:
    """In hand is what was not committed of it; a group that never commits has nothing in hand."""
    pulled_to = {("T", "G"): {0: 5, 1: 2}, ("T", "Reader"): {0: 6}}
    group, reader = progress_of_groups(offsets_of((0, 3)), pulled_to, {("T", 0): 7, ("T", 1): 2})

    assert (group.lag, group.in_hand, group.ready, group.not_given) == (4, 2, 2, [(0, 5)])
    assert (reader.lag, reader.in_hand, reader.ready) == (0, 0, 1)


def test_ages_are_of_the_oldest_queue() -> None:
    """And none where nothing is left, or the message has gone."""
    found = progress_of_groups(
        offsets_of((0, 3), (1, 1), (2, 0)), {}, {("T", 0): 7, ("T", 1): 2, ("T", 2): 1}
    )
    times = {0: 5_000, 1: 4_000, 2: -1}
    for _ in look_up_ages(found, 10, 9_000, lambda _, queue_id, __: times[queue_id]):
        pass

    assert [(one.lag_ms, one.queueing_ms) for one in found] == [(5_000, 0)]


async def test_a_scrape_that_was_cut_off() -> None:
    """What it has counted is not counted again, and what it has not is not left out."""
    rig, sizes, delays = Rig(), StoredSizes(), AskedDelays()
    store = rig.broker.store
    sizes.begin(store)
    delays.begin(rig.broker.timer_store.files.timer_log)
    for topic in ("A", "B", "C"):
        rig.send(topic)
    cut_off = sizes.read(store)
    next(cut_off)
    before = sum(one.count for one in sizes.by_topic.values())
    del cut_off
    for _ in range(2):
        for _ in sizes.read(store):
            pass

    assert before == 1
    assert {topic: one.count for topic, one in sizes.by_topic.items()} == {"A": 1, "B": 1, "C": 1}
    assert list(delays.read(rig.broker.timer_store.files.timer_log)) == []


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (479, "v5_3_3"),
        (478, "v5_3_3_snapshot"),
        (194, "v3_9_1_snapshot"),
        (611, "v5_9_9"),
        (193, "193"),
        (612, "higher_version"),
        (-1, "-1"),
    ],
)
def test_versions(version: int, name: str) -> None:
    """As RocketMQ's metrics call them."""
    assert version_name(version) == name
