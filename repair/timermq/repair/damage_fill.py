"""The content for the holes of the commit log: decided here, as bytes and positions.

Queue offsets that no record has were lost in one of the holes between their neighbours. Each gets a
lost record there; those that must stand earliest go first. The rest of a hole is filler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from timermq.timerstore.filler_record import FILLER_SIZE_MAX, FILLER_SIZE_MIN, filler
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.record_layout import BLANK_SIZE

from .lost_record import blank, lost_record
from .queue_sequence import Gap


@attrs.frozen
class Fill:
    """Bytes for a place in the log."""

    position: int
    data: bytes


@attrs.define
class _Open:
    """Queue offsets that have no place yet."""

    gap: Gap
    next: int


def plan_fills(
    holes: Sequence[Hole], gaps: Sequence[Gap], store_ms: Mapping[int, int]
) -> tuple[list[Fill], list[Gap]]:
    """Fill all holes.

    Args:
        holes: In the order of the log.
        gaps: Queue offsets without a record.
        store_ms: Position of a hole to a store time for what is written there.

    Returns:
        What to write, and the gaps that found no place.
    """
    waiting = [_Open(gap, gap.first) for gap in sorted(gaps, key=lambda gap: gap.before_py)]
    fills: list[Fill] = []
    for number, hole in enumerate(holes):
        later_py = holes[number + 1].position if number + 1 < len(holes) else None
        fills += _fill(hole, waiting, store_ms[hole.position], later_py)
        waiting = [one for one in waiting if one.next < one.gap.end]
    return fills, [attrs.evolve(one.gap, first=one.next) for one in waiting]


def _fill(hole: Hole, waiting: list[_Open], store_ms: int, later_py: int | None) -> list[Fill]:
    """Fill one hole; takes what has its place there from ``waiting``.

    Rather than to leave out all marks, what may stand in the hole at ``later_py`` goes there.
    """
    room = hole.size - (BLANK_SIZE if hole.reaches_segment_end else 0)
    here = [one for one in waiting if one.gap.after_py < hole.position < one.gap.before_py]
    places = [(one, offset) for one in here for offset in range(one.next, one.gap.end)]
    chosen = _chosen(places, room, is_marked=True)
    found = {(id(one), offset) for one, offset in chosen}
    is_marked = all(
        (id(one), offset) in found or (later_py is not None and later_py < one.gap.before_py)
        for one, offset in places
    )
    if not is_marked:
        chosen = _chosen(places, room, is_marked=False)
    for one, offset in chosen:
        room -= _size(one.gap, is_marked=is_marked)
        one.next = offset + 1
    fills: list[Fill] = []
    at = hole.position
    for number, (one, offset) in enumerate(chosen):
        is_last = number == len(chosen) - 1 and not hole.reaches_segment_end
        data = lost_record(
            one.gap.topic,
            one.gap.queue_id,
            offset,
            position=at,
            store_ms=store_ms,
            is_marked=is_marked,
            body_size=room if is_last and room < FILLER_SIZE_MIN else 0,
        )
        fills.append(Fill(at, data))
        at += len(data)
    if hole.reaches_segment_end:
        return [*fills, Fill(at, blank(hole.end - at))]
    return fills + _fillers(at, hole.end, store_ms)


def _chosen(
    places: Sequence[tuple[_Open, int]], room: int, *, is_marked: bool
) -> list[tuple[_Open, int]]:
    """Which of some queue offsets a hole has room for; of each queue they follow each other."""
    chosen: list[tuple[_Open, int]] = []
    ends: dict[int, int] = {}
    for one, offset in places:
        size = _size(one.gap, is_marked=is_marked)
        if offset == ends.get(id(one), one.next) and size <= room:
            room -= size
            chosen.append((one, offset))
            ends[id(one)] = offset + 1
    return chosen


def _fillers(at: int, end: int, store_ms: int) -> list[Fill]:
    fills: list[Fill] = []
    while at < end:
        size = min(end - at, FILLER_SIZE_MAX)
        if 0 < end - at - size < FILLER_SIZE_MIN:
            size -= FILLER_SIZE_MIN
        fills.append(Fill(at, filler(size, position=at, store_ms=store_ms)))
        at += size
    return fills


def _size(gap: Gap, *, is_marked: bool) -> int:
    record = lost_record(
        gap.topic, gap.queue_id, gap.first, position=0, store_ms=1, is_marked=is_marked
    )
    return len(record)
