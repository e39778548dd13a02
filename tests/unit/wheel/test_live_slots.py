"""The set of live ring indexes."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.wheel.live_slots import LiveSlots


def live(count: int, *indexes: int) -> LiveSlots:
    """A set for ``count`` slots, with these members."""
    slots = LiveSlots(count)
    slots.add(np.array(indexes, np.int64))
    return slots


@pytest.mark.parametrize("count", [1, 128, 129, 16_384, 16_385, 1_209_600])
def test_first_and_last_index_are_found(count: int) -> None:
    """The ends of the ring are found from anywhere, whatever the number of levels."""
    slots = live(count, 0, count - 1)

    assert slots.next_from(0) == 0
    assert slots.next_from(min(1, count - 1)) == count - 1
    assert slots.next_from(count) is None


def test_discarding_the_last_member_of_a_block_empties_the_levels_above() -> None:
    """A search passes over blocks whose members have all gone."""
    slots = live(1_209_600, 5, 500_000, 1_000_000)
    slots.discard(500_000)

    assert slots.next_from(6) == 1_000_000


def test_discarding_one_of_two_in_a_block_keeps_the_other() -> None:
    """A block stays marked as long as one member is left."""
    slots = live(1_209_600, 500_000, 500_001)
    slots.discard(500_000)

    assert slots.next_from(0) == 500_001


def test_discarding_a_stranger_changes_nothing() -> None:
    """An index that is no member may be discarded."""
    slots = live(1000, 300)
    slots.discard(301)

    assert [300] == slots.indexes().tolist()


def test_length_and_membership() -> None:
    """A member that is added twice counts once."""
    slots = live(1000, 7, 7, 900)

    assert len(slots) == 2
    assert 7 in slots
    assert 8 not in slots


def test_clear_removes_all() -> None:
    """A cleared set finds nothing."""
    slots = live(1_209_600, 1, 2, 1_000_000)
    slots.clear()

    assert slots.next_from(0) is None
    assert len(slots) == 0


def test_random_members_are_visited_in_order() -> None:
    """Stepping from member to member visits exactly the sorted members."""
    members = sorted(set(np.random.default_rng(3).integers(0, 1_209_600, 500).tolist()))
    slots = live(1_209_600, *members)
    visited: list[int] = []
    index = slots.next_from(0)
    while index is not None:
        visited.append(index)
        index = slots.next_from(index + 1)

    assert members == visited
