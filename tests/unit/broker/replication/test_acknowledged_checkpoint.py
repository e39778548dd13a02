"""The checkpoint that slaves are told: never ahead of their logs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.acknowledged_checkpoint import (
    SAMPLES_MAX,
    AcknowledgedCheckpoint,
)


def test_without_followers_it_is_told_as_it_is() -> None:
    """An operator asks, who has nothing to lose by it."""
    assert AcknowledgedCheckpoint().answer(b"1", 100, None) == b"1"


def test_it_is_told_when_all_have_its_log() -> None:
    """Until then the one before; at first none."""
    told = AcknowledgedCheckpoint()

    assert told.answer(b"1", 100, 50) is None
    assert told.answer(b"2", 200, 150) == b"1"
    assert told.answer(b"3", 300, 200) == b"2"
    assert told.answer(b"4", 300, 300) == b"4"


def test_a_follower_that_has_less_is_not_told_what_others_were() -> None:
    """It links from the beginning of the log, behind one that has all."""
    told = AcknowledgedCheckpoint()

    assert told.answer(b"1", 100, 100) == b"1"
    assert told.answer(b"2", 100, 0) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=2 * SAMPLES_MAX))
def test_nothing_is_told_of_what_is_not_acknowledged(story: list[tuple[int, int]]) -> None:
    """However far a follower lags, and however long."""
    told, end, acknowledged = AcknowledgedCheckpoint(), 0, 0
    for grown, copied in story:
        end += grown
        acknowledged = min(acknowledged + copied, end)
        page = told.answer(str(end).encode(), end, acknowledged)

        assert page is None or int(page) <= acknowledged
