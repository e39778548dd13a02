"""How full the wheel is."""

from __future__ import annotations

import numpy as np

from timermq.pipeline.wheel_occupancy import WheelOccupancy


def occupancy(*slots: tuple[int, int]) -> WheelOccupancy:
    """Slots of a second: time and number."""
    return WheelOccupancy(
        times=np.array([time_ms for time_ms, _ in slots], np.int64),
        nums=np.array([number for _, number in slots], np.int64),
        precision_ms=1_000,
    )


def test_the_example_of_the_module() -> None:
    """Slots at 1, 2, 2 and 7 s in three buckets of two."""
    wheel = occupancy((1_000, 1), (2_000, 2), (7_000, 1))

    assert (3, 0, 0) == wheel.buckets(from_ms=1_000, width_ms=2_000, count=3)
    assert 4 == wheel.pending


def test_what_is_overdue_counts_in_the_first_bucket() -> None:
    """Nothing that waits is left out at the near end."""
    wheel = occupancy((1_000, 5), (9_000, 1), (10_000, 2), (19_999, 4))

    assert (8, 4) == wheel.buckets(from_ms=10_000, width_ms=5_000, count=2)


def test_an_empty_wheel() -> None:
    """Every number of an empty wheel is 0."""
    wheel = occupancy()

    assert (0, 0) == wheel.buckets(from_ms=0, width_ms=1_000, count=2)
    assert () == wheel.next_slots(3)
    assert 0 == wheel.pending
    assert 0 == wheel.overdue_ms(10**13)


def test_next_slots() -> None:
    """The first ones, as many as are asked for."""
    wheel = occupancy((1_000, 1), (2_000, 2), (7_000, -1))

    assert ((1_000, 1), (2_000, 2)) == wheel.next_slots(2)
    assert 3 == len(wheel.next_slots(9))


def test_overdue() -> None:
    """A slot is over when its last millisecond is: (1 s, 2 s] ends with 2 s."""
    wheel = occupancy((1_000, 1))

    assert [0, 0, 1] == [wheel.overdue_ms(now_ms) for now_ms in (500, 2_000, 2_001)]
