"""Rows of a family of metrics, and the limit of their number.

What grows with topics or groups has a limit. Beyond it a gauge is added up under ``*``, which is
the name of nothing. A counter must never fall, for a reader takes a fall for a restart and counts
what is left once more; and a sum falls when a topic is deleted, even one that is named, for then
another comes by name. So what is beyond the limit of counters is a gauge of its own, one for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import accumulate

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..histogram import Histogram

REST = "*"
"""Label of what is beyond the limit of a gauge."""

Row = tuple[tuple[str, ...], int]
"""Values of the labels, and the value."""


def gauge(name: str, text: str, value: float) -> Metric:
    """One number that may fall."""
    return GaugeMetricFamily(name, text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """One number that only grows."""
    return CounterMetricFamily(name, text, value=value)


def labelled(family: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """The family with its rows."""
    assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
    for values, value in rows:
        family.add_metric(list(values), value)
    return family


def largest(rows: Iterable[Row], series_max: int) -> Iterator[Row]:
    """The rows of a gauge with the largest values, by name; what is left of the others as one."""
    named, rest = _divided(rows, series_max)
    yield from named
    if rest:
        yield (REST,) * len(rest[0][0]), sum(value for _, value in rest)


def histogram(
    name: str, text: str, labels: list[str], rows: Iterable[tuple[tuple[str, ...], Histogram]]
) -> Metric:
    """Histograms by the values of their labels."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, one in rows:
        sums = accumulate(one.counts)
        bounds = [*(f"{float(bound)}" for bound in one.bounds), "+Inf"]
        family.add_metric(list(values), list(zip(bounds, sums, strict=True)), one.total)
    return family


@attrs.define(eq=False)
class LargestCounters:
    """Counters of topics and groups on one page: the largest by name, and what is not named."""

    series_max: int
    """Rows of a family."""
    _unnamed: dict[str, int] = attrs.field(factory=dict[str, int], init=False)

    def family(self, name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
        """The counters with the largest values."""
        named, rest = _divided(rows, self.series_max)
        self._unnamed[f"{name}_total"] = sum(value for _, value in rest)
        return labelled(CounterMetricFamily(name, text, labels=labels), named)

    def histograms(
        self,
        name: str,
        text: str,
        labels: list[str],
        rows: Iterable[tuple[tuple[str, ...], Histogram]],
    ) -> Metric:
        """The histograms with the most values."""
        found = dict(rows)
        counts = ((values, one.count) for values, one in found.items())
        named, rest = _divided(counts, self.series_max)
        self._unnamed[f"{name}_count"] = sum(count for _, count in rest)
        return histogram(name, text, labels, ((values, found[values]) for values, _ in named))

    def unnamed(self) -> Metric:
        """What the families so far leave out."""
        return labelled(
            GaugeMetricFamily(
                "timermq_unnamed",
                "What a counter has of topics and groups beyond metrics_series_max",
                labels=["counter"],
            ),
            [((name,), value) for name, value in self._unnamed.items()],
        )


def _divided(rows: Iterable[Row], series_max: int) -> tuple[list[Row], list[Row]]:
    """The largest, by name, and the others."""
    rows = list(rows)
    named = heapq.nlargest(series_max, rows, key=lambda row: row[1])
    if len(named) == len(rows):
        return sorted(named), []
    kept = {labels for labels, _ in named}
    return sorted(named), [row for row in rows if row[0] not in kept]
