"""Plans: the chains of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.wheel.link_plan import FEW_COUNT, LinkPlan, plan_links
from timermq.wheel.slot import NO_POS, SLOT_DTYPE, Slots


def ring_of(*rows: tuple[int, int, int, int, int]) -> Slots:
    """A ring of slots with these rows."""
    return np.array(list(rows), SLOT_DTYPE)


def planned(ring: Slots, ticks: list[int], first_pos: int = 520) -> LinkPlan:
    """A plan for units that stand one behind the other, each counting 1."""
    positions = first_pos + 52 * np.arange(len(ticks))
    return plan_links(ring, np.array(ticks), positions, np.ones(len(ticks), np.int32))


def described(plan: LinkPlan) -> dict[int, tuple[int, ...]]:
    """The slot that the plan has for each ring index."""
    return dict(zip(plan.indexes.tolist(), plan.slots.tolist(), strict=True))


def test_units_of_one_slot_are_chained_in_the_order_given() -> None:
    """Each unit points at the one before it in its slot, the first at none."""
    plan = planned(ring_of(*[(0, 0, 0, 0, 0)] * 4), [9, 10, 9, 9])

    assert [NO_POS, NO_POS, 520, 624] == plan.prev_pos.tolist()
    assert {1: (9, 520, 676, 3, 0), 2: (10, 572, 572, 1, 0)} == described(plan)


def test_a_slot_in_use_is_continued() -> None:
    """The first unit points at the slot's newest one; first position and magic stay."""
    plan = planned(ring_of((8, 52, 104, 2, 7), (0, 0, 0, 0, 0)), [8, 8])

    assert [104, 520] == plan.prev_pos.tolist()
    assert {0: (8, 52, 572, 4, 7)} == described(plan)


def test_a_slot_of_another_turn_is_overwritten() -> None:
    """A time that does not match means that the slot is absent, whatever else it holds."""
    plan = planned(ring_of((6, 52, 104, 2, 7), (0, 0, 0, 0, 0)), [8])

    assert [NO_POS] == plan.prev_pos.tolist()
    assert {0: (8, 520, 520, 1, 0)} == described(plan)


def test_deletes_count_minus_one() -> None:
    """The number of a slot is messages minus deletes."""
    ring = ring_of((0, 0, 0, 0, 0))
    plan = plan_links(
        ring, np.array([1, 1, 1]), np.array([0, 52, 104]), np.array([1, -1, -1], "i4")
    )

    assert [-1] == plan.slots["num"].tolist()


def test_nothing_changes_before_the_plan_is_applied() -> None:
    """Planning leaves the ring as it was."""
    ring = ring_of((8, 52, 104, 2, 0), (3, 0, 0, 1, 0))
    before = ring.copy()
    planned(ring, [8, 9] * FEW_COUNT)

    assert before.tobytes() == ring.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_loop_and_numpy_make_the_same_plan(seed: int) -> None:
    """A large batch gives what the same units give in small ones, one after the other."""
    random = np.random.default_rng(seed)
    one, many = (np.zeros(8, SLOT_DTYPE) for _ in range(2))
    for ring in (one, many):
        ring["time"][1:4] = [9, 2, 11]
        ring["last_pos"][1:4] = [52, 104, 156]
        ring["num"][1:4] = [1, 2, 3]
    ticks = random.integers(8, 16, 4 * FEW_COUNT)
    positions = 520 + 52 * np.arange(len(ticks))
    nums = random.choice(np.array([1, -1], np.int32), len(ticks))
    prev_pos: list[int] = []
    for at in range(0, len(ticks), FEW_COUNT):
        part = slice(at, at + FEW_COUNT)
        small = plan_links(one, ticks[part], positions[part], nums[part])
        one[small.indexes] = small.slots
        prev_pos += small.prev_pos.tolist()
    large = plan_links(many, ticks, positions, nums)
    many[large.indexes] = large.slots

    assert prev_pos == large.prev_pos.tolist()
    assert one.tobytes() == many.tobytes()
