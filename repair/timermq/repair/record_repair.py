"""Records whose place in a queue can be told although their own head says another.

A gap of one queue and a misfit between the gap's neighbours belong together when they differ in one
thing only: the topic (of equal length), the queue, the queue offset, or the kind of record. When
the queue's own unit shows the misfit, that decides; without it the misfit must be the only one, and
nothing else may explain both: holes of the log may have taken what the gap lacks, and what stood
before a queue's only record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from timermq.timerstore.log_holes import Hole

from .queue_sequence import Gap, Misfit

PAIRS_MAX = 10_000
"""Gaps times misfits that are compared one by one; beyond, only what units show is repaired."""


@attrs.frozen
class RecordRepair:
    """A record, and the place in a queue that its head must state."""

    misfit: Misfit
    topic: str
    queue_id: int
    queue_offset: int


MayBegin = Callable[[Misfit], bool]
"""Whether a misfit may be the only record that holes have left of the queue that it states."""
ShownAt = Callable[[str, int, int], tuple[int, int] | None]
"""Topic, queue and queue offset to the position and size that the queue's unit states."""


def pair(
    gaps: Sequence[Gap],
    misfits: Sequence[Misfit],
    shown_at: ShownAt,
    holes: Sequence[Hole] = (),
    may_begin: MayBegin = lambda _misfit: False,
) -> tuple[list[RecordRepair], list[Gap], list[Misfit]]:
    """Bring gaps and misfits together.

    Args:
        gaps: What queues lack.
        misfits: Records that fit no queue.
        shown_at: What units say.
        holes: Where the log has lost records.
        may_begin: Which misfits holes explain.

    Returns:
        What can be repaired, and the gaps and misfits that are left.
    """
    repairs: list[RecordRepair] = []
    left = list(misfits)
    open_gaps: list[Gap] = []

    def is_doubtful(gap: Gap, misfit: Misfit) -> bool:
        return may_begin(misfit) and any(
            gap.after_py < hole.position < gap.before_py for hole in holes
        )

    for gap in gaps:
        first = gap.first
        for offset in range(gap.first, gap.end if left else gap.first):
            misfit = _misfit_for(gap, offset, left, shown_at, is_doubtful)
            if misfit is None:
                continue
            repairs.append(RecordRepair(misfit, gap.topic, gap.queue_id, offset))
            left.remove(misfit)
            if first < offset:
                open_gaps.append(attrs.evolve(gap, first=first, end=offset))
            first = offset + 1
        if first < gap.end:
            open_gaps.append(attrs.evolve(gap, first=first))
    return repairs, open_gaps, left


def _misfit_for(
    gap: Gap,
    offset: int,
    misfits: Sequence[Misfit],
    shown_at: ShownAt,
    is_doubtful: Callable[[Gap, Misfit], bool],
) -> Misfit | None:
    """The record that belongs to a queue offset; None when nothing tells which."""
    shown = shown_at(gap.topic, gap.queue_id, offset)
    if shown is not None:
        for misfit in misfits:
            if shown == (misfit.position, misfit.size) and _is_near(misfit, gap, offset):
                return misfit
    if len(misfits) > PAIRS_MAX:
        return None
    between = [
        misfit
        for misfit in misfits
        if gap.after_py < misfit.position < gap.before_py and _is_near(misfit, gap, offset)
    ]
    if len(between) != 1 or is_doubtful(gap, between[0]):
        return None
    return between[0]


def _is_near(misfit: Misfit, gap: Gap, offset: int) -> bool:
    """Whether a misfit differs in one thing from what a gap lacks."""
    stated = (misfit.topic, misfit.queue_id, misfit.queue_offset, misfit.is_queued)
    wanted = (gap.topic, gap.queue_id, offset, True)
    differing = [
        one for one, (left, right) in enumerate(zip(stated, wanted, strict=True)) if left != right
    ]
    same_length = len(misfit.topic.encode()) == len(gap.topic.encode())
    return len(differing) == 1 and same_length
