"""Rows of a family of metrics: the largest by name, the others as one sum."""

from __future__ import annotations

import pytest

from timermq.broker.histogram import Histogram
from timermq.broker.metrics.series import LargestCounters, histogram, largest

VALUES = [("b", 5), ("a", 7), ("d", 1), ("c", 2)]


def labels_of(key: str) -> tuple[str, ...]:
    """Two labels of a key."""
    return key, key.upper()


@pytest.mark.parametrize("series_max", [4, 5])
def test_a_gauge_within_its_limit_has_all_rows_by_name(series_max: int) -> None:
    """They stand in the order of their labels, and there is no sum."""
    assert list(largest(VALUES, series_max, labels_of)) == [
        (("a", "A"), 7),
        (("b", "B"), 5),
        (("c", "C"), 2),
        (("d", "D"), 1),
    ]


def test_a_gauge_beyond_its_limit_ends_with_the_sum_of_the_others() -> None:
    """Every label of that row is the mark of the rest."""
    assert list(largest(VALUES, 2, labels_of)) == [
        (("a", "A"), 7),
        (("b", "B"), 5),
        (("*", "*"), 3),
    ]


def test_no_rows_have_no_sum() -> None:
    """A family without values is empty, whatever its limit."""
    assert list(largest([], 2, labels_of)) == []


def test_counters_beyond_the_limit_are_a_gauge_of_their_own() -> None:
    """A row that fell would be taken for a restart, so no counter has the mark of the rest."""
    counters = LargestCounters(2)
    shown = counters.family("some", "Some", ["topic", "kind"], VALUES, labels_of)
    all_of_them = counters.family("few", "Few", ["topic", "kind"], VALUES[:1], labels_of)

    assert [one.value for one in shown.samples] == [7, 5]
    assert [one.value for one in all_of_them.samples] == [5]
    assert {one.labels["counter"]: one.value for one in counters.unnamed().samples} == {
        "some_total": 3,
        "few_total": 0,
    }


def counted(*values: int) -> Histogram:
    """A histogram of values, with a bound at ten."""
    one = Histogram((10,))
    for value in values:
        one.observe(value)
    return one


def test_histograms_with_the_most_values_are_named() -> None:
    """The number of values decides, not their sum."""
    counters = LargestCounters(1)
    found = {"many": counted(1, 2, 3), "large": counted(1000)}
    family = counters.histograms("size", "Bytes", ["topic"], found, lambda key: (key,))

    assert {one.labels["topic"] for one in family.samples} == {"many"}
    assert [one.value for one in counters.unnamed().samples] == [1]


def test_bounds_of_a_histogram_are_cumulative() -> None:
    """The last bound is infinite and counts every value."""
    family = histogram("size", "Bytes", ["topic"], [(("T",), counted(1, 10, 11))])
    samples = {(one.name, one.labels.get("le")): one.value for one in family.samples}

    assert samples["size_bucket", "10.0"] == 2
    assert samples["size_bucket", "+Inf"] == samples["size_count", None] == 3
    assert samples["size_sum", None] == 22
