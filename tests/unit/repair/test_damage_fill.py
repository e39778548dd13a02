"""What is written into holes: exactly their bytes, in records that any reader passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.repair.damage_fill import plan_fills
from timermq.repair.lost_record import lost_record
from timermq.repair.queue_sequence import Gap
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.filler_record import FILLER_SIZE_MAX, FILLER_SIZE_MIN
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.record_check import CheckKind, check_record

TOPICS = ("T", "rmq_sys_wheel_timer", SCHEDULE_TOPIC, "V" * 200)


def size_of(topic: str, *, is_marked: bool) -> int:
    """Bytes of a lost record."""
    return len(lost_record(topic, 0, 0, position=0, store_ms=1, is_marked=is_marked))


@given(
    lost=st.lists(st.sampled_from(TOPICS), max_size=4),
    spare=st.integers(0, 400),
    is_marked=st.booleans(),
    to_end=st.booleans(),
)
def test_a_hole_is_filled_to_its_last_byte(
    lost: list[str],
    spare: int,
    is_marked: bool,
    to_end: bool,
) -> None:
    """Records follow each other from the hole's start to its end, with every lost offset."""
    sizes = sum(size_of(topic, is_marked=is_marked) for topic in lost)
    size = sizes + spare + (8 if to_end else 0)
    if not lost:
        size = max(size, FILLER_SIZE_MIN)
    start = 1000
    hole = Hole(start, start + size, "", to_end)
    gaps = [Gap(topic, number, 7, 8, start - 1, start + size) for number, topic in enumerate(lost)]
    fills, left = plan_fills([hole], gaps, {start: 5})
    segment = bytearray(start + size)
    for fill in fills:
        segment[fill.position : fill.position + len(fill.data)] = fill.data
    at = start
    found: list[tuple[str, int, int]] = []
    while at < len(segment):
        result = check_record(bytes(segment), at, len(segment), at, check_crc=True)
        assert result.kind is not CheckKind.BAD, result.reason
        if result.kind is CheckKind.RECORD:
            record = read_log_record(bytes(segment[at : at + result.size]))
            if record.is_queued:
                found.append((record.topic.decode(), record.queue_id, record.queue_offset))
        at += result.size

    assert len(segment) == at
    assert [] == left
    assert [(gap.topic, gap.queue_id, 7) for gap in gaps] == found


def test_fillers_of_a_large_hole() -> None:
    """No filler is larger than a reader takes, none too small to be a record."""
    size = 2 * FILLER_SIZE_MAX + 1
    fills, _ = plan_fills([Hole(0, size, "", reaches_segment_end=False)], [], {0: 1})
    sizes = [len(fill.data) for fill in fills]

    assert size == sum(sizes)
    assert FILLER_SIZE_MAX == max(sizes)
    assert min(sizes) >= FILLER_SIZE_MIN


@pytest.mark.parametrize(
    ("size", "before_py", "are_marked"),
    [(250, 5_000, [True] * 4), (190, 1_500, [False] * 2), (1_000, 5_000, [True] * 4)],
    ids=["some go to the later hole", "none may go there", "all fit into the first"],
)
def test_what_may_stand_in_a_later_hole_goes_there_with_its_mark(
    size: int, before_py: int, are_marked: list[bool]
) -> None:
    """Consumers pass an empty message that says that it is one."""
    holes = [Hole(100, 100 + size, "", False), Hole(2_000, 2_300, "", False)]
    gap = Gap("T", 0, 0, len(are_marked), -1, before_py)
    fills, left = plan_fills(holes, [gap], {100: 1, 2_000: 1})
    records = [read_log_record(one.data) for one in fills]

    assert [] == left
    assert are_marked == [b"TIMERMQ_LOST" in one.properties for one in records if one.is_queued]


@pytest.mark.parametrize(("place", "left"), [(500, 0), (3000, 1)])
def test_an_offset_goes_between_its_neighbours(place: int, left: int) -> None:
    """A hole outside of the records around a gap is not where its message was."""
    hole = Hole(place, place + 300, "", reaches_segment_end=False)
    _, unplaced = plan_fills([hole], [Gap("T", 0, 1, 2, 100, 2000)], {place: 1})

    assert left == len(unplaced)
