"""How large the messages are that come to each topic."""

from __future__ import annotations

from broker_rig import Rig
from timermq.broker.metrics.requested_delays import RequestedDelays
from timermq.broker.metrics.stored_sizes import StoredSizes


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
