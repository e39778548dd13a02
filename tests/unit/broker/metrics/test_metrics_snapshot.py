"""Tests of what a page of metrics is made of, apart from the broker."""

from __future__ import annotations

import pytest

from timermq.broker.metrics.metrics_snapshot import version_name


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
