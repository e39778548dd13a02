"""Tests of what a page of metrics is made of, apart from the broker."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from broker_rig import Rig, running_broker, send_ext
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.metrics.group_progress import (
    GROUP_COUNT,
    GroupProgress,
    look_up_ages,
    progress_of_groups,
)
from timermq.broker.metrics.metrics_snapshot import version_name
from timermq.broker.metrics.requested_delays import HASH_COUNT, RequestedDelays
from timermq.broker.metrics.stored_sizes import StoredSizes
from timermq.timerstore.java_hash import java_hash

Result = TypeVar("Result")


def offsets_of(*committed: tuple[int, int]) -> ConsumerOffsetTable:
    """What group G has committed of topic T: queue and offset."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for queue_id, offset in committed:
        offsets.commit(group="G", topic="T", queue_id=queue_id, offset=offset)
    return offsets


def steps(work: Generator[None, None, Result]) -> tuple[int, Result]:
    """How often a work gives others their turn, and what it returns."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return count, end.value
        count += 1


def progress(
    offsets: ConsumerOffsetTable,
    pulled_to: Mapping[tuple[str, str], Mapping[int, int]],
    ends: Mapping[tuple[str, int], int],
    given_to: Mapping[tuple[str, str], Mapping[int, int]] | None = None,
) -> list[GroupProgress]:
    """How far the groups are, at one go; they were given all that they have looked at."""
    given_to = pulled_to if given_to is None else given_to
    return steps(progress_of_groups(offsets, pulled_to, given_to, ends))[1]


def test_a_crowd_of_groups_is_counted_in_pieces() -> None:
    """Those that have committed, and those that have only pulled."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for number in range(3 * GROUP_COUNT):
        offsets.commit(group=f"G{number}", topic="T", queue_id=0, offset=0)
    pulled_to = {("T", f"H{number}"): {0: 0} for number in range(2 * GROUP_COUNT)}

    turns, groups = steps(progress_of_groups(offsets, pulled_to, {}, {("T", 0): 1}))
    assert (turns, len(groups)) == (5, 5 * GROUP_COUNT)
    assert sum(one.lag for one in groups) == 3 * GROUP_COUNT


async def test_a_crowd_of_topics_is_hashed_in_pieces(autojump_clock: MockClock) -> None:
    """And not at all where nothing was asked for."""
    topics = [*(f"T{number}" for number in range(4 * HASH_COUNT)), "OrdersAa", "OrdersBB"]
    assert java_hash("OrdersAa") == java_hash("OrdersBB")
    delays = RequestedDelays()
    async with running_broker() as running:
        log = running.broker.timer_store.files.timer_log
        delays.begin(log)
        assert steps(delays.by_topic(topics)) == (0, {})
        for topic in ("T7", "T7", "Gone", "OrdersAa"):
            ext = send_ext(topic, "TIMER_DELAY_SEC\x0160\x02")
            await running.connect().call(10, ext, b"x")
        await trio.sleep(1)
        for _ in delays.read(log):
            pass
        turns, found = steps(delays.by_topic(topics))

    counts = {topic: one.count for topic, one in found.items()}
    assert (turns, counts) == (4, {"T7": 2, "OrdersAa": 1}), "each is counted once"
    assert steps(delays.by_topic(["Gone"])) == (0, {}), "what was not named is forgotten"


def test_lag_is_what_lies_behind_the_commits() -> None:
    """Queues are added up; one that is gone, or was committed beyond its end, adds nothing."""
    offsets = offsets_of((0, 3), (1, 10), (2, 5))

    assert progress(offsets, {}, {("T", 0): 7, ("T", 1): 8}) == [
        GroupProgress(group="G", topic="T", lag=4, uncommitted=[(0, 3)])
    ]


def test_what_was_given() -> None:
    """In hand is what was not committed of it; a group that never commits has nothing in hand."""
    pulled_to = {("T", "G"): {0: 5, 1: 2}, ("T", "Reader"): {0: 6}}
    group, reader = progress(offsets_of((0, 3)), pulled_to, {("T", 0): 7, ("T", 1): 2})

    assert (group.lag, group.in_hand, group.ready, group.not_given) == (4, 2, 2, [(0, 5)])
    assert (reader.lag, reader.in_hand, reader.ready) == (0, 0, 1)


def test_what_was_left_out_is_in_nobodys_hand() -> None:
    """Behind the last message that was given, and beyond a place that was gone back to."""
    pulled_to = {("T", "G"): {0: 11, 1: 2, 2: 4}}
    given_to = {("T", "G"): {0: 3, 1: 7}}
    ends = {("T", 0): 11, ("T", 1): 7, ("T", 2): 4}
    (group,) = progress(offsets_of((0, 1), (1, 1), (2, 2)), pulled_to, ends, given_to)

    assert (group.in_hand, group.ready) == (2 + 1 + 0, 5)


def test_ages_are_of_the_oldest_queue() -> None:
    """And none where nothing is left, or the message has gone."""
    found = progress(
        offsets_of((0, 3), (1, 1), (2, 0)), {}, {("T", 0): 7, ("T", 1): 2, ("T", 2): 1}
    )
    times = {0: 5_000, 1: 4_000, 2: -1}
    for _ in look_up_ages(found, 10, 9_000, lambda _, queue_id, __: times[queue_id]):
        pass

    assert [(one.lag_ms, one.queueing_ms) for one in found] == [(5_000, 0)]


async def test_a_scrape_that_was_cut_off() -> None:
    """What it has counted is not counted again, and what it has not is not left out."""
    rig, sizes, delays = Rig(), StoredSizes(), RequestedDelays()
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


async def test_two_readings_at_a_time() -> None:
    """One that goes on where another has been meanwhile counts nothing twice."""
    rig, sizes = Rig(), StoredSizes()
    store = rig.broker.store
    sizes.begin(store)
    for topic in ("A", "B", "C"):
        rig.send(topic)
    first, second = sizes.read(store), sizes.read(store)
    next(first)
    next(second)
    rig.send("A")
    for reading in (second, first, sizes.read(store)):
        list(reading)

    assert {topic: one.count for topic, one in sizes.by_topic.items()} == {"A": 2, "B": 1, "C": 1}
    assert (sizes.count, sizes.user_count) == (4, 4)


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
