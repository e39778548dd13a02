"""Level queues that RocketMQ left: what still waits, and in which order it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from fakes import ManualClock
from left_levels import leave, waiting
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from timermq.pipeline.levels.level_queues import Entries, LevelQueues, count_left
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore


def opened(sent: list[tuple[int, int]], offsets: Mapping[int, int] | None) -> MessageStore:
    """A store with a message for each (ms after the start, level)."""
    clock = ManualClock()
    start_ms = clock.time_ms
    times = iter([start_ms + after_ms for after_ms, _ in sent])

    def now_ms() -> int:
        clock.time_ms = next(times, clock.time_ms)
        return clock.time_ms

    disk = MemoryDisk()
    leave(disk, SMALL_FILES, now_ms, [waiting("x", level) for _, level in sent], offsets)
    return MessageStore.open(disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)


def levels(entries: Entries) -> list[int]:
    """The level of each entry, in their order."""
    return [int(level) for level in entries["level"]]


@pytest.mark.parametrize(
    ("offsets", "left"),
    [(None, 5), ({1: 3, 4: 2}, 0), ({1: 2, 4: 0}, 3), ({1: 9, 7: 1}, 2), ({1: 2}, 3)],
)
def test_count(offsets: dict[int, int] | None, left: int) -> None:
    """What lies behind the offsets is through; an offset beyond the end is at the end."""
    store = opened([(0, 1), (0, 1), (0, 1), (0, 4), (0, 4)], offsets)

    assert left == count_left(store)


def test_due_first() -> None:
    """Over all levels by their moments: 1 s, 5 s and 10 s after they were stored."""
    store = opened([(0, 3), (1, 2), (2, 1), (6_000, 1), (7_000, 2)], {})
    queues = LevelQueues(store, {})
    first = queues.due_first(2)
    queues.pass_by(first)

    assert [1, 2] == levels(first)
    assert [1, 3, 2] == levels(queues.due_first(9))
    assert {1: 1, 2: 1, 3: 0} == queues.offsets
    assert 3 == queues.left


@pytest.fixture(params=[1, 2, 3, 7])
def count_max(request: pytest.FixtureRequest) -> int:
    """Entries taken at a time."""
    return cast("int", request.param)


def test_none_is_passed_over(count_max: int) -> None:
    """Each comes once, and within a level in the order of the queue, however many are taken."""
    store = opened([(n * 700, n % 3 + 1) for n in range(12)], {})
    queues = LevelQueues(store, {})
    taken: list[tuple[int, int]] = []
    while len(entries := queues.due_first(count_max)):
        queues.pass_by(entries)
        taken += [(int(one["level"]), int(one["offset_py"])) for one in entries]

    assert 12 == len(set(taken)) == len(taken)
    for level in (1, 2, 3):
        own = [position for one, position in taken if one == level]
        assert sorted(own) == own
