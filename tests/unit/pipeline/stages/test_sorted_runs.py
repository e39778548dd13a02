"""Runs of due units: the order in which they are taken, where a take ends, and which are merged."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.pipeline.stages.sorted_runs import (
    LAST_KEY,
    MERGE_RATIO,
    RUN_COUNT_MAX,
    SortedRuns,
    count_to,
    in_order,
)
from timermq.pipeline.stages.timer_request import REQUEST, Requests

Row = tuple[int, int]
"""Moment and order of a unit."""


def units(*rows: Row, lane: int = 0) -> Requests:
    """Units in order among themselves."""
    made = np.zeros(len(rows), REQUEST)
    for request, (deliver_ms, order_py) in zip(made, rows, strict=True):
        request["deliver_ms"], request["order_py"] = deliver_ms, order_py
        request["topic_hash"] = lane
    return in_order(made)


def rows_of(requests: Requests) -> list[Row]:
    """Moment and order of each unit, as they stand."""
    return list(zip(requests["deliver_ms"].tolist(), requests["order_py"].tolist(), strict=True))


def runs_of(*runs: Requests) -> SortedRuns:
    """These runs, added one after the other."""
    made = SortedRuns()
    for run in runs:
        made.add(run)
    return made


def test_units_are_taken_in_the_order_of_their_moments() -> None:
    """Whichever run they stand in; those of one moment in the order of sending."""
    runs = runs_of(units((5, 1), (9, 0)), units((5, 0), (7, 3)))

    assert rows_of(runs.take(3)) == [(5, 0), (5, 1), (7, 3)]
    assert rows_of(runs.take(3)) == [(9, 0)]
    assert not runs


def test_a_take_ends_with_what_is_due() -> None:
    """A unit is due at its moment; one that is not due stays, also in a run that is due in part."""
    runs = runs_of(units((5, 0), (8, 1)), units((7, 2)))

    assert rows_of(runs.take(9, now_ms=4)) == []
    assert rows_of(runs.take(9, now_ms=7)) == [(5, 0), (7, 2)]
    assert len(runs) == 1


def test_a_take_ends_at_a_place() -> None:
    """With the unit at that place, and before one of the same moment that was sent later."""
    runs = runs_of(units((5, 0), (6, 1)), units((6, 2), (7, 3)))

    assert rows_of(runs.take(9, to=(6, 1))) == [(5, 0), (6, 1)]
    assert count_to(units((5, 0), (6, 1), (6, 2)), (6, 1)) == 2


def test_the_first_unit_is_known_without_a_take() -> None:
    """Its moment and its place; without units there is no moment, and the last place."""
    runs = runs_of(units((7, 1)), units((6, 4), (9, 0)), units())

    assert (runs.first_ms(), runs.first_key()) == (6, (6, 4))
    assert (SortedRuns().first_ms(), SortedRuns().first_key()) == (None, LAST_KEY)


def test_lanes_are_those_of_units_behind_a_place() -> None:
    """A lane whose last unit stands at the place has none behind it."""
    runs = runs_of(units((5, 0), (6, 0), lane=1), units((7, 0), lane=2))

    assert runs.lanes_after((5, 0)) == {1, 2}
    assert runs.lanes_after((6, 0)) == {2}


@pytest.mark.parametrize("is_large", [False, True])
def test_small_runs_are_merged_and_a_large_one_is_left_alone(*, is_large: bool) -> None:
    """At one run more than the most; nothing of a large run is copied for the sake of the rest."""
    small = [units((n, n)) for n in range(RUN_COUNT_MAX)]
    large_count = MERGE_RATIO * RUN_COUNT_MAX + is_large
    large = units(*[(100 + n, n) for n in range(large_count)])
    runs = runs_of(large, *small)

    assert rows_of(runs.take(RUN_COUNT_MAX)) == [(n, n) for n in range(RUN_COUNT_MAX)]
    taken = runs.take(large_count)
    assert rows_of(taken) == rows_of(large)
    assert np.shares_memory(taken, large) is is_large
