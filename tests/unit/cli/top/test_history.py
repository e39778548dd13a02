"""Rates and lateness over the last seconds."""

from __future__ import annotations

import attrs

from timermq.cli.top.history import SAMPLES_MAX, History, Lateness
from timermq.remoting import Counters, Snapshot
from top_samples import IDLE

BUCKETS = len(IDLE.lateness_bounds_ms) + 1


def at(
    uptime_ms: int, *, max_ms: int = 0, late: dict[int, int] | None = None, **more: int
) -> Snapshot:
    """A snapshot with some counters; ``late`` maps buckets to deliveries."""
    lateness = tuple((late or {}).get(bucket, 0) for bucket in range(BUCKETS))
    return attrs.evolve(
        IDLE,
        uptime_ms=uptime_ms,
        lateness_max_ms=max_ms,
        counters=Counters(lateness=lateness, **more),
    )


def history_of(*snapshots: Snapshot) -> History:
    """The history after these snapshots, one by one."""
    history = History()
    for snapshot in snapshots:
        history = history.with_snapshot(snapshot)
    return history


def test_nothing_yet() -> None:
    """Without a snapshot there is nothing to say."""
    assert History().figures() is None
    assert [] == History().p99_by_sample(10)


def test_one_snapshot_is_since_the_start() -> None:
    """The first picture speaks of the whole life of the broker."""
    figures = history_of(at(10_000, sent=50, cpu_ms=1_000, late={2: 4}, max_ms=4)).figures()

    assert figures is not None
    assert (True, 5.0, 10.0) == (figures.is_since_start, figures.rate("sent"), figures.cpu_percent)
    assert Lateness(p50_ms=5, p99_ms=5, max_ms=4) == figures.lateness


def test_a_rate_is_over_the_window() -> None:
    """Five seconds count; what was before does not."""
    history = history_of(*(at(1_000 * second, sent=100 * second**2) for second in range(20)))
    figures = history.figures()

    assert figures is not None
    assert (5_000, False) == (figures.span_ms, figures.is_since_start)
    assert (19**2 - 14**2) * 20.0 == figures.rate("sent")


def test_one_sample_a_second_is_kept() -> None:
    """Four snapshots a second are four frames, not four samples; a minute is enough."""
    history = history_of(*(at(250 * count) for count in range(1_000)))

    assert SAMPLES_MAX == len(history.samples)
    assert 249_750 == history.samples[-1].uptime_ms
    assert 59_000 <= history.samples[-1].uptime_ms - history.samples[0].uptime_ms <= 62_000


def test_percentiles_of_the_window() -> None:
    """They are of what was delivered within it, whatever was before."""
    before, after = (
        at(1_000, late={12: 900}, max_ms=70_000),
        at(3_000, late={0: 98, 2: 1, 4: 1, 12: 900}, max_ms=70_000),
    )
    figures = history_of(before, after).figures()

    assert figures is not None
    assert Lateness(p50_ms=1, p99_ms=5, max_ms=20) == figures.lateness


def test_the_worst_of_the_window() -> None:
    """A new record is known exactly; what is above all bounds has none."""
    figures = history_of(at(0), at(2_000, late={3: 1}, max_ms=9)).figures()
    assert figures is not None
    assert Lateness(p50_ms=10, p99_ms=10, max_ms=9) == figures.lateness

    figures = history_of(at(0), at(2_000, late={12: 1}, max_ms=61_000)).figures()
    assert figures is not None
    assert Lateness(p50_ms=None, p99_ms=None, max_ms=61_000) == figures.lateness


def test_no_delivery() -> None:
    """Then there is no lateness."""
    figures = history_of(at(0, late={1: 5}), at(2_000, late={1: 5})).figures()

    assert figures is not None
    assert figures.lateness is None


def test_a_broker_that_was_started_anew() -> None:
    """Its counters began at 0: nothing is compared with the old ones."""
    figures = history_of(at(90_000, sent=500), at(95_000, sent=900), at(1_000, sent=3)).figures()

    assert figures is not None
    assert (True, 3.0) == (figures.is_since_start, figures.rate("sent"))


def test_percentile_by_second() -> None:
    """A bucket a second, and a gap where nothing was delivered."""
    history = history_of(
        at(0), at(1_000, late={1: 5}), at(2_000, late={1: 5}), at(3_000, late={1: 5, 6: 1})
    )

    assert [1, None, 6] == history.p99_by_sample(10)
    assert [None, 6] == history.p99_by_sample(2)
