"""Rates and lateness over the last seconds, from the counters of successive snapshots.

A sample a second is kept, and the newest one. Before there are two, everything is since the start
of the broker. Time is the broker's uptime, which no step of the wall clock moves; when it goes
back, the broker was restarted, and the history begins again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import attrs

from timermq.remoting import Counters, Snapshot

SAMPLE_MS = 1_000
SAMPLES_MAX = 62
WINDOW_MS = 5_000
"""The span for rates and lateness."""


@attrs.frozen(kw_only=True)
class Sample:
    """The counters at one moment."""

    uptime_ms: int
    counters: Counters
    lateness_max_ms: int


@attrs.frozen(kw_only=True)
class Lateness:
    """How late messages were; upper bounds in milliseconds, None: above all bounds."""

    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


@attrs.frozen(kw_only=True)
class Figures:
    """The changes between two samples."""

    span_ms: int
    is_since_start: bool
    counters: Counters
    """How much each counter grew in this time."""
    lateness: Lateness | None
    """None: nothing was delivered."""

    def rate(self, name: str) -> float:
        """A counter, by the second."""
        return float(getattr(self.counters, name)) * 1000 / max(self.span_ms, 1)

    @property
    def cpu_percent(self) -> float:
        """CPU time of the broker, in percent of one core."""
        return self.counters.cpu_ms * 100 / max(self.span_ms, 1)


@attrs.frozen(kw_only=True)
class History:
    """The samples so far, at most a minute of them."""

    samples: tuple[Sample, ...] = ()
    bounds_ms: tuple[int, ...] = ()

    def with_snapshot(self, snapshot: Snapshot) -> History:
        """The history with one more moment."""
        sample = Sample(
            uptime_ms=snapshot.uptime_ms,
            counters=snapshot.counters,
            lateness_max_ms=snapshot.lateness_max_ms,
        )
        samples = self.samples
        if samples and samples[-1].uptime_ms > sample.uptime_ms:
            samples = ()
        if len(samples) > 1 and samples[-1].uptime_ms - samples[-2].uptime_ms < SAMPLE_MS:
            samples = samples[:-1]
        return History(
            samples=(*samples, sample)[-SAMPLES_MAX:], bounds_ms=snapshot.lateness_bounds_ms
        )

    def figures(self) -> Figures | None:
        """The changes within the window; None without a sample."""
        if not self.samples:
            return None
        newest = self.samples[-1]
        if len(self.samples) == 1:
            start = Sample(uptime_ms=0, counters=Counters(), lateness_max_ms=0)
            return self._between(start, newest, is_since_start=True)
        inside = [one for one in self.samples[:-1] if newest.uptime_ms - one.uptime_ms <= WINDOW_MS]
        return self._between(inside[0] if inside else self.samples[-2], newest)

    def p99_by_sample(self, count: int) -> list[int | None]:
        """The bucket of the 99th percentile between samples, oldest first; None: no delivery."""
        pairs = list(zip(self.samples, self.samples[1:], strict=False))[-count:]
        return [
            _bucket(_difference(new.counters.lateness, old.counters.lateness), 0.99)
            for old, new in pairs
        ]

    def _between(self, old: Sample, new: Sample, *, is_since_start: bool = False) -> Figures:
        lateness = _difference(new.counters.lateness, old.counters.lateness)
        changes = {
            one.name: getattr(new.counters, one.name) - getattr(old.counters, one.name)
            for one in attrs.fields(Counters)
            if one.name != "lateness"
        }
        return Figures(
            span_ms=new.uptime_ms - old.uptime_ms,
            is_since_start=is_since_start,
            counters=attrs.evolve(Counters(lateness=lateness), **changes),
            lateness=self._lateness(lateness, old, new),
        )

    def _lateness(self, counts: tuple[int, ...], old: Sample, new: Sample) -> Lateness | None:
        last = _bucket(counts, 1.0)
        if last is None:
            return None
        max_ms = self._bound(last)
        if new.lateness_max_ms > old.lateness_max_ms or max_ms is None:
            max_ms = new.lateness_max_ms  # it is of this time, or above all bounds
        return Lateness(
            p50_ms=self._bound(_bucket(counts, 0.5) or 0),
            p99_ms=self._bound(_bucket(counts, 0.99) or 0),
            max_ms=min(max_ms, new.lateness_max_ms),
        )

    def _bound(self, bucket: int) -> int | None:
        return self.bounds_ms[bucket] if bucket < len(self.bounds_ms) else None


def _difference(new: Sequence[int], old: Sequence[int]) -> tuple[int, ...]:
    before = (*old, *[0] * (len(new) - len(old)))
    return tuple(one - other for one, other in zip(new, before, strict=False))


def _bucket(counts: Sequence[int], part: float) -> int | None:
    """The bucket that a part of all lies at or below; None when there are none."""
    totals: list[int] = []
    for count in counts:
        totals.append(count + (totals[-1] if totals else 0))
    if not totals or not totals[-1]:
        return None
    return bisect_left(totals, part * totals[-1])
