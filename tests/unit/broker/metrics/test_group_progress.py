"""How far a group is on a topic: what it has to consume, in hand, and before it."""

from __future__ import annotations

from collections.abc import Mapping

from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.metrics.group_progress import (
    GROUP_COUNT,
    GroupProgress,
    look_up_ages,
    progress_of_groups,
)
from unit.broker.metrics.pieces import steps


def offsets_of(*committed: tuple[int, int]) -> ConsumerOffsetTable:
    """What group G has committed of topic T: queue and offset."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for queue_id, offset in committed:
        offsets.commit(group="G", topic="T", queue_id=queue_id, offset=offset)
    return offsets


def progress(
    offsets: ConsumerOffsetTable,
    pulled_to: Mapping[tuple[str, str], Mapping[int, int]],
    ends: Mapping[tuple[str, int], int],
    given_to: Mapping[tuple[str, str], Mapping[int, int]] | None = None,
) -> list[GroupProgress]:
    """How far the groups are, at one go; they were given all that they have looked at."""
    given_to = pulled_to if given_to is None else given_to
    return steps(progress_of_groups(offsets, pulled_to, given_to, ends))[1]


def test_a_crowd_of_groups_is_counted_in_pieces() -> None:
    """Those that have committed, and those that have only pulled."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for number in range(3 * GROUP_COUNT):
        offsets.commit(group=f"G{number}", topic="T", queue_id=0, offset=0)
    pulled_to = {("T", f"H{number}"): {0: 0} for number in range(2 * GROUP_COUNT)}

    turns, groups = steps(progress_of_groups(offsets, pulled_to, {}, {("T", 0): 1}))
    assert (turns, len(groups)) == (5, 5 * GROUP_COUNT)
    assert sum(one.lag for one in groups) == 3 * GROUP_COUNT


def test_lag_is_what_lies_behind_the_commits() -> None:
    """Queues are added up; one that is gone, or was committed beyond its end, adds nothing."""
    offsets = offsets_of((0, 3), (1, 10), (2, 5))

    assert progress(offsets, {}, {("T", 0): 7, ("T", 1): 8}) == [
        GroupProgress(group="G", topic="T", lag=4, uncommitted=[(0, 3)])
    ]


def test_what_was_given() -> None:
    """In hand is what was not committed of it; a group that never commits has nothing in hand."""
    pulled_to = {("T", "G"): {0: 5, 1: 2}, ("T", "Reader"): {0: 6}}
    group, reader = progress(offsets_of((0, 3)), pulled_to, {("T", 0): 7, ("T", 1): 2})

    assert (group.lag, group.in_hand, group.ready, group.not_given) == (4, 2, 2, [(0, 5)])
    assert (reader.lag, reader.in_hand, reader.ready) == (0, 0, 1)


def test_what_was_left_out_is_not_in_hand() -> None:
    """Behind the last message that was given, and beyond a place that was gone back to."""
    pulled_to = {("T", "G"): {0: 11, 1: 2, 2: 4}}
    given_to = {("T", "G"): {0: 3, 1: 7}}
    ends = {("T", 0): 11, ("T", 1): 7, ("T", 2): 4}
    (group,) = progress(offsets_of((0, 1), (1, 1), (2, 2)), pulled_to, ends, given_to)

    assert (group.in_hand, group.ready) == (2 + 1 + 0, 5)


def test_ages_are_of_the_oldest_queue() -> None:
    """And none where nothing is left, or the message has gone."""
    found = progress(
        offsets_of((0, 3), (1, 1), (2, 0)), {}, {("T", 0): 7, ("T", 1): 2, ("T", 2): 1}
    )
    times = {0: 5_000, 1: 4_000, 2: -1}
    for _ in look_up_ages(found, 10, 9_000, lambda _, queue_id, __: times[queue_id]):
        pass

    assert [(one.lag_ms, one.queueing_ms) for one in found] == [(5_000, 0)]
