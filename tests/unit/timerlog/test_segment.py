"""How units lie in segments."""

from __future__ import annotations

import pytest

from timermq.timerlog.segment import closing, parts, units_in


def test_golden_blank() -> None:
    """A blank names the bytes left, itself included; zeros follow."""
    assert bytes.fromhex("00000024 0000000000000000 cbd43194") + bytes(20) == closing(
        1024 - 36, 1024
    )


@pytest.mark.parametrize(
    ("segment_size", "count"), [(104_857_600, 2_016_492), (5200, 99), (1024, 19), (68, 1), (67, 0)]
)
def test_units_of_a_segment_leave_room_for_the_blank(segment_size: int, count: int) -> None:
    """RocketMQ's segment takes 2,016,492 units, those of the golden stores 99."""
    assert count == units_in(segment_size)


@pytest.mark.parametrize(
    ("pos", "count", "places"),
    [
        (0, 3, [(0, 3)]),
        (0, 4, [(0, 4)]),
        (52, 4, [(52, 3), (250, 1)]),
        (208, 1, [(250, 1)]),
        (250, 9, [(250, 4), (500, 4), (750, 1)]),
    ],
)
def test_units_go_to_the_next_segment_when_none_fits(
    pos: int, count: int, places: list[tuple[int, int]]
) -> None:
    """A segment of 250 bytes takes four units; what does not fit goes to the next ones."""
    assert places == list(parts(pos, count, 250))
