"""Cancels that the wheel does not show yet: how long each is remembered."""

from __future__ import annotations

from timermq.pipeline.state.fresh_cancels import FreshCancel, FreshCancels


def cancel(number: int, out_ms: int) -> FreshCancel:
    """The cancel of the record at a number, by the record a hundred behind it."""
    return FreshCancel(
        target_py=number, record_py=100 + number, out_ms=out_ms, queue_end=number + 1
    )


def remembered(cancels: FreshCancels) -> list[int]:
    """The records that count as cancelled."""
    return [number for number in range(10) if cancels.cover(number)]


def test_a_far_cancel_is_given_up_when_its_delete_is_linked() -> None:
    """A near one is not: its slot may be open already."""
    cancels = FreshCancels()
    cancels.add(cancel(1, out_ms=5_000))
    cancels.add(cancel(2, out_ms=5_001))
    cancels.forget(commit_queue_offset=2, near_ms=5_000, commit_read_ms=0)
    assert remembered(cancels) == [1, 2]

    cancels.forget(commit_queue_offset=3, near_ms=5_000, commit_read_ms=0)
    assert remembered(cancels) == [1]


def test_a_record_that_was_met_is_given_up_behind_its_slot() -> None:
    """When the slot that was open then has reached its topics, and not before."""
    cancels = FreshCancels()
    cancels.add(cancel(1, out_ms=5_000))
    cancels.meet(1, 6_000)
    cancels.forget(commit_queue_offset=9, near_ms=9_000, commit_read_ms=6_000)
    assert remembered(cancels) == [1]

    cancels.forget(commit_queue_offset=9, near_ms=9_000, commit_read_ms=6_001)
    assert (remembered(cancels), len(cancels)) == ([], 0)


def test_a_record_that_is_not_cancelled_is_not_met() -> None:
    """What is left out for another reason costs no memory, and ends no later cancel."""
    cancels = FreshCancels()
    cancels.meet(1, 0)
    cancels.add(cancel(1, out_ms=5_000))
    cancels.forget(commit_queue_offset=9, near_ms=9_000, commit_read_ms=9_000)

    assert remembered(cancels) == [1]


def test_recovery_must_read_from_the_oldest_that_is_remembered() -> None:
    """From the record that says so, not from the one that it cancels."""
    cancels = FreshCancels()
    assert cancels.first_py() is None
    cancels.add(cancel(1, out_ms=9_000))
    cancels.add(cancel(2, out_ms=1_000))
    assert cancels.first_py() == 101

    cancels.forget(commit_queue_offset=9, near_ms=5_000, commit_read_ms=0)
    assert cancels.first_py() == 102
