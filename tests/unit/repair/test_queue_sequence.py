"""Queue offsets in the order of the log: gaps, misfits, and which belong together."""

from __future__ import annotations

import pytest

from timermq.repair.queue_sequence import Gap, Misfit, QueueSequence
from timermq.repair.record_repair import pair
from timermq.timerstore.log_holes import Hole


def shows_nothing(_topic: str, _queue_id: int, _offset: int) -> tuple[int, int] | None:
    """A queue whose files are lost."""
    return None


def judge(offsets: list[int], confirmed: frozenset[int] = frozenset()) -> QueueSequence:
    """A sequence of records of 100 bytes, from position 0 on."""
    sequence = QueueSequence("T", 0, log_starts_at_0=True)
    for number, offset in enumerate(offsets):
        sequence.take(100 * number, 100, offset, is_confirmed=number in confirmed)
    sequence.finish(is_shown_as_next=False)
    return sequence


@pytest.mark.parametrize(
    ("offsets", "gaps", "misfits"),
    [
        ([0, 1, 2], [], []),
        ([0, 3, 4], [(1, 3)], []),
        ([0, 9, 2, 3], [(1, 2)], [9]),
        ([0, 1, 0, 3], [(2, 3)], [0]),
        ([0, 1, 5], [(2, 5)], []),
        ([0, 2, 2, 3], [(1, 2)], [2]),
    ],
)
def test_gaps_and_misfits(
    offsets: list[int], gaps: list[tuple[int, int]], misfits: list[int]
) -> None:
    """What follows a jump tells whether records are missing or one states a wrong offset."""
    sequence = judge(offsets)

    assert gaps == [(gap.first, gap.end) for gap in sequence.gaps]
    assert misfits == [misfit.queue_offset for misfit in sequence.misfits]


def test_a_topic_made_again() -> None:
    """Offset 0 begins a queue anew when its unit shows that record."""
    sequence = judge([0, 1, 2, 0, 1], frozenset({3, 4}))

    assert (0, 2, 300) == (sequence.first, sequence.next, sequence.starts_py)
    assert ([], []) == (sequence.gaps, sequence.misfits)


@pytest.mark.parametrize(
    ("misfit", "is_repaired"),
    [
        (Misfit(100, 100, "T", 0, 9), True),
        (Misfit(100, 100, "U", 0, 1), True),
        (Misfit(100, 100, "T", 3, 1), True),
        (Misfit(100, 100, "T", 0, 1, is_queued=False), True),
        (Misfit(100, 100, "U", 0, 9), False),
        (Misfit(100, 100, "TT", 0, 1), False),
        (Misfit(900, 100, "T", 0, 9), False),
    ],
)
def test_what_fills_a_gap(misfit: Misfit, is_repaired: bool) -> None:
    """A record between the neighbours of a gap that differs in one thing is the missing one."""
    repairs, open_gaps, left = pair([Gap("T", 0, 1, 2, 0, 200)], [misfit], shows_nothing)

    assert is_repaired == bool(repairs)
    assert is_repaired == (not open_gaps and not left)


@pytest.mark.parametrize(
    ("hole", "may_begin", "is_repaired"),
    [(40, True, False), (40, False, True), (300, True, True)],
)
def test_what_holes_have_left_is_no_other_queues_record(
    hole: int, may_begin: bool, is_repaired: bool
) -> None:
    """Holes took the start of one queue and a record of another: neither has moved."""
    gap, left = Gap("T", 0, 1, 2, 0, 200), Misfit(100, 100, "U", 0, 1)
    holes = [Hole(hole, hole + 60, "torn", False)]

    repairs, _, _ = pair([gap], [left], shows_nothing, holes, lambda _misfit: may_begin)

    assert is_repaired == bool(repairs)
