"""One picture of several brokers."""

from __future__ import annotations

import attrs

from timermq.cli.top.merged_snapshot import merge_snapshots
from timermq.remoting import Counters
from timermq.remoting.watch import SLOTS_MAX
from top_samples import IDLE, LATENESS_BOUNDS_MS

ONE = attrs.evolve(
    IDLE,
    broker="a",
    uptime_ms=310_000,
    pending=3,
    buckets=(1, 0, 2, *IDLE.buckets[3:]),
    slots=((IDLE.from_ms, 1), (IDLE.from_ms + 2_000, 2)),
    topics=(("Orders", 3),),
    topic_count=1,
    counters=Counters(sent=5, delivered=2, lateness=(1, 1)),
    read_lag_ms=4,
    read_ms=IDLE.read_ms - 1_000,
    disk_used_ratio=0.5,
)
OTHER = attrs.evolve(
    IDLE,
    broker="b",
    uptime_ms=20_000,
    now_ms=IDLE.now_ms + 1_000,
    from_ms=IDLE.from_ms + 1_000,
    pending=9,
    buckets=(4, 5, *IDLE.buckets[2:]),
    slots=((IDLE.from_ms + 1_000, 4), (IDLE.from_ms + 2_000, 5)),
    topics=(("Alarms", 5), ("Orders", 4)),
    topic_count=2,
    counters=Counters(sent=7, delivered=1, lateness=(0, 1, 3)),
)
BOTH = {"h:1": ONE, "h:2": OTHER}


def test_one_broker_is_as_it_is() -> None:
    """Nothing of a single picture changes."""
    assert merge_snapshots({"h:1": ONE}) == ONE


def test_what_adds_up() -> None:
    """Messages that wait add up by their time, their slots and their topics, and so do counters."""
    merged = merge_snapshots(BOTH)

    assert (12, IDLE.from_ms + 1_000) == (merged.pending, merged.from_ms)
    assert (1 + 4, 2 + 5, 0) == merged.buckets[:3]
    assert len(IDLE.buckets) == len(merged.buckets)
    assert merged.slots == (
        (IDLE.from_ms, 1),
        (IDLE.from_ms + 1_000, 4),
        (IDLE.from_ms + 2_000, 2 + 5),
    )
    assert (("Orders", 7), ("Alarms", 5)) == merged.topics
    assert (12, 3, (1, 2, 3)) == (
        merged.counters.sent,
        merged.counters.delivered,
        merged.counters.lateness,
    )


def test_topics_of_different_brokers_are_all_shown() -> None:
    """Each broker knows one of two topics, and one of two slots."""
    merged = merge_snapshots(
        {
            "h:1": attrs.evolve(ONE, topics=(("Orders", 3),), slots=((IDLE.from_ms, 3),)),
            "h:2": attrs.evolve(ONE, topics=(("Alarms", 2),), slots=((IDLE.from_ms + 5_000, 2),)),
        }
    )

    assert (("Orders", 3), ("Alarms", 2)) == merged.topics
    assert ((IDLE.from_ms, 3), (IDLE.from_ms + 5_000, 2)) == merged.slots


def test_slots_end_where_a_full_list_ends() -> None:
    """What a broker has behind its full list is not known, so no sum of it is shown."""
    full = tuple((IDLE.from_ms + number * 1_000, 1) for number in range(SLOTS_MAX))
    late = (*full[:1], (IDLE.from_ms + SLOTS_MAX * 1_000, 7))
    merged = merge_snapshots(
        {"h:1": attrs.evolve(ONE, slots=full), "h:2": attrs.evolve(ONE, slots=late)}
    )

    assert ((IDLE.from_ms, 2), *full[1:]) == merged.slots


def test_the_worst_counts() -> None:
    """The oldest pointer, the largest lag, the fullest disk and the youngest broker are shown."""
    merged = merge_snapshots(BOTH)

    assert (ONE.read_ms, 4, 0.5) == (merged.read_ms, merged.read_lag_ms, merged.disk_used_ratio)
    assert (20_000, "2 brokers") == (merged.uptime_ms, merged.address)
    assert LATENESS_BOUNDS_MS == merged.lateness_bounds_ms
    assert merged.refusal is None


def test_a_trouble_has_a_name() -> None:
    """Which broker refuses sends, and whose clock is not safe, is not lost among the others."""
    full = attrs.evolve(ONE, refusal="disk full", clock="UNSAFE", clock_fault="backward")
    merged = merge_snapshots({"h:1": full, "h:2": OTHER})

    assert ("a: disk full", "UNSAFE", "backward") == (
        merged.refusal,
        merged.clock,
        merged.clock_fault,
    )


def test_rates_go_by_those_that_answer() -> None:
    """The uptime of a broker that is gone stands still, and would make rates of nothing."""
    assert ONE.uptime_ms == merge_snapshots(BOTH, old=["h:2"]).uptime_ms
