"""Turns among topics, beside lists: order in a lane, nothing lost or doubled, no long waits."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.stages.lanes import SHARE_MIN, Barrier, Lanes
from timermq.pipeline.stages.sorted_runs import in_order
from timermq.pipeline.stages.timer_request import REQUEST, Requests

SLOTS = (1_000, 2_000, 3_000)

Row = tuple[int, int, int]
"""Slot, moment, order of sending."""


def units(rows: list[tuple[int, int, int]]) -> Requests:
    """(moment, order, lane) as requests, in order."""
    made = np.zeros(len(rows), REQUEST)
    for index, (deliver_ms, order, lane) in enumerate(rows):
        made[index]["deliver_ms"] = deliver_ms
        made[index]["order_py"] = order
        made[index]["topic_hash"] = lane
    return in_order(made)


def crowd(slot_ms: int, lane: int, count: int) -> Requests:
    """Units of one lane and moment."""
    return units([(slot_ms + 1, order, lane) for order in range(count)])


def by_lane(taken: list[tuple[int, Requests]]) -> dict[int, list[Row]]:
    """What a batch brought to each lane."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for slot_ms, requests in taken:
        for request in requests:
            place = (slot_ms, int(request["deliver_ms"]), int(request["order_py"]))
            rows[int(request["topic_hash"])].append(place)
    return rows


def sizes(taken: list[tuple[int, Requests]]) -> dict[int, int]:
    """How many units each lane got."""
    return {lane: len(rows) for lane, rows in by_lane(taken).items()}


LATE = st.tuples(st.sampled_from(SLOTS), st.lists(st.tuples(st.integers(1, 9), st.integers(-3, 3))))
STEPS = st.lists(st.one_of(LATE, st.integers(1, 40)), max_size=12)


@given(STEPS)
def test_lanes_as_lists(steps: list[tuple[int, list[tuple[int, int]]] | int]) -> None:
    """Whatever joins when: each lane in its order, batches as full as can be, nothing twice."""
    lanes, sent = Lanes(), 0
    waiting: dict[int, list[Row]] = defaultdict(list)
    for step in [*steps, 10_000]:
        if isinstance(step, int):
            taken = lanes.take(step)
            held = sum(map(len, waiting.values()))

            assert [slot_ms for slot_ms, _ in taken] == sorted({slot_ms for slot_ms, _ in taken})
            assert sum(len(requests) for _, requests in taken) == min(step, held)

            for lane, rows in by_lane(taken).items():
                assert rows == sorted(waiting[lane])[: len(rows)]
                waiting[lane] = sorted(waiting[lane])[len(rows) :]
        else:
            slot_ms, joining = step
            numbered = [(slot_ms + ms, sent + n, lane) for n, (ms, lane) in enumerate(joining)]
            sent += len(joining)
            lanes.add(slot_ms, units(numbered))
            for deliver_ms, order, lane in numbered:
                waiting[lane].append((slot_ms, deliver_ms, order))
        for slot_ms in SLOTS:
            of_slot = [row for rows in waiting.values() for row in rows if row[0] == slot_ms]
            assert lanes.held(slot_ms) == len(of_slot)
    assert not lanes


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    batch=st.integers(1, 64),
)
def test_no_message_waits_longer_than_a_turn(counts: list[int], batch: int) -> None:
    """A lane has its share in every turn of as many batches as it takes to serve all lanes."""
    lanes = Lanes()
    for lane, count in enumerate(counts):
        lanes.add(1_000, crowd(1_000, lane, count))
    share = min(max(batch // len(counts), SHARE_MIN), batch)
    batches_a_turn = -(-len(counts) // max(batch // share, 1))
    left = dict(enumerate(counts))
    for turn in range(1, max(counts) + 1):
        for _ in range(batches_a_turn):
            for lane, size in sizes(lanes.take(batch)).items():
                left[lane] -= size
        for lane, count in enumerate(counts):
            assert left[lane] <= max(count - turn * share, 0)


def test_a_neighbour_of_a_crowd() -> None:
    """Who wants little gets it with the next batch, whatever waits; the rest of it is used."""
    lanes = Lanes()
    lanes.add(1_000, crowd(1_000, 7, 100_000))

    assert sizes(lanes.take(12)) == {7: 12}

    lanes.add(1_000, crowd(1_000, 8, 1))
    lanes.add(2_000, crowd(2_000, 9, 2))

    assert sizes(lanes.take(12)) == {7: 9, 8: 1, 9: 2}
    assert lanes.held(1_000) == 100_000 - 12 - 9
    assert lanes.held(2_000) == 0


def test_what_is_not_read_yet_is_not_overtaken() -> None:
    """A lane of which an earlier slot has more to come stays in that slot; others go."""
    lanes = Lanes()
    lanes.add(1_000, crowd(1_000, 7, 3))
    lanes.add(2_000, crowd(2_000, 7, 3))
    lanes.add(2_000, crowd(2_000, 8, 3))
    barrier: Barrier = (1_000, frozenset({7}))

    assert sizes(lanes.take(100, [barrier])) == {7: 3, 8: 3}
    assert sizes(lanes.take(100, [barrier])) == {}
    assert lanes.held(2_000) == 3
    assert sizes(lanes.take(100)) == {7: 3}
