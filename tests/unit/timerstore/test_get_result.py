"""Tests of the answer to a read."""

from __future__ import annotations

from timermq.timerstore.get_result import GetResult, GetStatus


def test_ordinals_are_those_of_rocketmq() -> None:
    """In the order of GetMessageStatus."""
    assert list(range(10)) == [int(status) for status in GetStatus]
    assert int(GetStatus.OFFSET_OVERFLOW_ONE) == 5


def test_size_is_that_of_all_items() -> None:
    """Items may hold several records."""
    result = GetResult(
        status=GetStatus.FOUND,
        next_offset=3,
        min_offset=0,
        max_offset=3,
        records=(b"abc", b"de"),
        count=3,
    )

    assert result.size == 5
