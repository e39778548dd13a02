"""Which slots a follower may pass: what an earlier answer has linked, and a later one delivered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.slot_progress import MARGIN_MS, Sample, SlotPass, SlotProgress


def sample(now_ms: int, read_ms: int, queue_offset: int = 0, end: int = 0) -> Sample:
    """An answer of a master."""
    return Sample(read_ms=read_ms, queue_offset=queue_offset, end=end, now_ms=now_ms)


def test_nothing_is_passed_by_one_answer() -> None:
    """What was linked late may wait in a slot that reading has not reached."""
    progress = SlotProgress()
    assert progress.add(sample(100_000, 99_000)) is None
    assert progress.add(sample(102_000, 99_500)) is None


def test_slots_before_an_earlier_time_are_passed() -> None:
    """With the entries that were linked then, and a position before which nothing later stands."""
    progress = SlotProgress()
    times = [100_000 + 2_000 * number for number in range(5)]
    found = [
        progress.add(sample(now_ms, now_ms - 1_000, 10 * number, 1_000 * number))
        for number, now_ms in enumerate(times)
    ]

    assert found[-1] == SlotPass(read_ms=106_000 - MARGIN_MS, queue_offset=30, scan_py=1_000)


def test_a_master_that_reads_behind_is_not_passed() -> None:
    """However much time passes, and however long its log grows."""
    progress = SlotProgress()
    for number in range(100):
        assert progress.add(sample(100_000 + 2_000 * number, 90_000, number, number)) is None


def test_answers_of_another_link_or_clock_do_not_count() -> None:
    """A clock that was set back tells nothing of what was read before."""
    progress = SlotProgress()
    for now_ms in (100_000, 110_000):
        progress.add(sample(now_ms, now_ms - 1))
    assert progress.add(sample(50_000, 200_000)) is None
    progress.add(sample(60_000, 59_000))
    progress.forget()
    assert progress.add(sample(70_000, 69_000)) is None


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 9_000), st.integers(0, 20_000), st.integers(0, 5)), max_size=60
    )
)
def test_what_is_passed_was_linked_and_read(steps: list[tuple[int, int, int]]) -> None:
    """By two answers each time, whatever a master tells."""
    progress, told = SlotProgress(), list[Sample]()
    now_ms = queue_offset = 0
    for passed_ms, lag_ms, grown in steps:
        now_ms, queue_offset = now_ms + passed_ms, queue_offset + grown
        told.append(sample(now_ms, now_ms - lag_ms, queue_offset, queue_offset * 100))
        found = progress.add(told[-1])
        if found is not None:
            linked = [one for one in told if one.queue_offset == found.queue_offset]
            assert any(found.read_ms < one.now_ms < told[-1].read_ms for one in linked)
            stored = [one for one in told if one.end == found.scan_py]
            assert any(one.now_ms < found.read_ms for one in stored)
