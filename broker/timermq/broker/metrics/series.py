"""Rows of a family of metrics, and the limit of their number.

A family that grows with topics or groups has a limit. Beyond it a gauge is added up under ``*``,
which no topic has as its name. A counter must never fall, for a reader takes a fall for a restart
and counts the rest once more; and a sum falls when a topic is deleted, even one that is named, for
then another comes by name. So the sum beyond the limit of counters is a gauge, one for all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from operator import itemgetter
from typing import TypeVar

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..histogram import Histogram

REST = "*"
"""Label of the sum of all rows beyond the limit of a gauge."""

Labels = tuple[str, ...]
"""The values in the order of the family's labels."""
Row = tuple[Labels, int]
"""Values of the labels, and the value."""
Key = TypeVar("Key")


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


def largest(
    values: Iterable[tuple[Key, int]], series_max: int, labels_of: Callable[[Key], Labels]
) -> Iterator[Row]:
    """The rows of a gauge with the largest values, by name; the sum of the others as one.

    Args:
        values: By the key that the labels are made from.
        series_max: Rows with names.
        labels_of: Makes the labels, of those alone.
    """
    named, rest = _divided(values, series_max, labels_of)
    yield from named
    if rest is not None:
        yield (REST,) * len(named[0][0]), rest


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
    """Counters of topics and groups on one page: the largest by name, and the sum of the others."""

    series_max: int
    """Rows of a family."""
    _unnamed: dict[str, int] = attrs.field(factory=dict[str, int], init=False)

    def family(
        self,
        name: str,
        text: str,
        labels: list[str],
        values: Iterable[tuple[Key, int]],
        labels_of: Callable[[Key], Labels],
    ) -> Metric:
        """The counters with the largest values; arguments as of `largest`."""
        named, rest = _divided(values, self.series_max, labels_of)
        self._unnamed[f"{name}_total"] = rest or 0
        return labelled(CounterMetricFamily(name, text, labels=labels), named)

    def histograms(
        self,
        name: str,
        text: str,
        labels: list[str],
        found: Mapping[str, Histogram],
        labels_of: Callable[[str], Labels],
    ) -> Metric:
        """The histograms with the most values."""
        counts = ((key, one.count) for key, one in found.items())
        named, rest = _divided(counts, self.series_max, lambda key: (key,))
        self._unnamed[f"{name}_count"] = rest or 0
        rows = ((labels_of(key), found[key]) for (key,), _ in named)
        return histogram(name, text, labels, rows)

    def unnamed(self) -> Metric:
        """The counters that the families so far leave out, added up."""
        return labelled(
            GaugeMetricFamily(
                "timermq_unnamed",
                "What a counter has of topics and groups beyond metrics_series_max",
                labels=["counter"],
            ),
            [((name,), value) for name, value in self._unnamed.items()],
        )


def _divided(
    values: Iterable[tuple[Key, int]], series_max: int, labels_of: Callable[[Key], Labels]
) -> tuple[list[Row], int | None]:
    """The largest, in order of their labels, and the sum of the others; None: there are none."""
    values = list(values)
    named = heapq.nlargest(series_max, values, key=itemgetter(1))
    rows = sorted((labels_of(key), value) for key, value in named)
    if len(named) == len(values):
        return rows, None
    return rows, sum(map(itemgetter(1), values)) - sum(map(itemgetter(1), named))
