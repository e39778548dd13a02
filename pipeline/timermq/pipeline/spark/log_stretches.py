"""The stretches of a store's timer log with their outlines, and how they are cut for tasks.

Outlines that the broker has kept are read, a thousandth of the log; where there is none, the units
tell. That is so of the end of the log, of stores of RocketMQ, and of those of earlier versions
until they are served again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise

import attrs

from timermq.timerlog.outlines import Outlines, stretches_of
from timermq.timerlog.segment import units_in
from timermq.timerlog.stretch_outline import Deletes, StretchOutline, outline_of
from timermq.timerlog.unit import UNIT

from .file_part import FilePart
from .object_disk import disk_of
from .options import ReadOptions
from .places import RangeReader, is_object
from .store_view import LogView
from .tables.source import SPAN_BYTES, SPANS_MIN, cut


@attrs.frozen(eq=False)
class Stretch:
    """Units that stand side by side in one segment, and what they are about."""

    part: FilePart
    outline: StretchOutline
    deletes: Deletes | None
    """None: they stand beside the outline that the broker has kept."""

    @property
    def is_whole(self) -> bool:
        """Whether it was not cut into smaller parts."""
        return self.part.high - self.part.low == self.outline.entry_count * UNIT.size


def outlines_of(log: LogView) -> Outlines:
    """The outlines of a timer log."""
    return Outlines(disk_of(log.directory), log.directory, log.segment_size)


def unit_parts(log: LogView) -> list[FilePart]:
    """The units of each segment of a timer log."""
    found: list[FilePart] = []
    for start, low, high in log.segments(log.start, log.end):
        high = min(high, start + units_in(log.segment_size) * UNIT.size)
        high -= (high - low) % UNIT.size
        if low < high:
            found.append(FilePart(log.path(start), start, low, high))
    return found


def stretches(log: LogView) -> Iterator[Stretch]:
    """All of a timer log, in its order.

    Raises:
        SparkJobError: The store was cleaned meanwhile.
    """
    outlines = outlines_of(log)
    for whole in unit_parts(log):
        with closing(whole.opened()) as file:
            kept = _fitting(file, whole, outlines.read(whole.start))
            for start, end in stretches_of(whole.start, log.segment_size):
                if start < whole.high:
                    part = attrs.evolve(whole, low=start, high=min(end, whole.high))
                    one = kept.get(start)
                    yield Stretch(part, *derived(part)) if one is None else Stretch(part, one, None)


def _fitting(
    file: RangeReader, whole: FilePart, kept: Mapping[int, StretchOutline]
) -> dict[int, StretchOutline]:
    """Those of a segment's outlines whose stretch ends, as it stands there, as they say.

    In an object store each look is a request, so there the newest that fits speaks for those before
    it: a timer log is written at its end and cut at its end, and its objects do not change. Tasks
    compare the sums of what they read, there as on a disk.
    """
    found: dict[int, StretchOutline] = {}
    for start in sorted(kept, reverse=True):
        one = kept[start]
        if one.end > whole.high:
            continue
        is_known = bool(found) and is_object(whole.path)
        if is_known or one.ends_with(file.read_at(UNIT.size, one.end - UNIT.size - whole.start)):
            found[start] = one
    return found


def derived(part: FilePart) -> tuple[StretchOutline, Deletes]:
    """The outline of a stretch, and its deletes, as its units tell them.

    Raises:
        SparkJobError: The store was cleaned meanwhile.
    """
    return outline_of(part.low, part.read(part.low, part.high))


def cut_for_tasks(wanted: Sequence[Stretch], options: ReadOptions) -> list[list[Stretch]]:
    """Share stretches out among tasks, in their order; cut them where more tasks are asked for.

    Args:
        wanted: The stretches that are read.
        options: How many tasks are wanted.
    """
    if not wanted:
        return []
    size = sum(one.part.high - one.part.low for one in wanted)
    count = options.partitions or max(-(-size // SPAN_BYTES), min(SPANS_MIN, len(wanted)))
    if len(wanted) < count:
        wanted = [piece for one in wanted for piece in _pieces(one, -(-count // len(wanted)))]
    places = [len(wanted) * number // count for number in range(count + 1)]
    return [list(wanted[low:high]) for low, high in pairwise(places) if low < high]


def _pieces(stretch: Stretch, count: int) -> list[Stretch]:
    """About so many parts of a stretch, of which each has a unit at least."""
    part = stretch.part
    return [
        attrs.evolve(stretch, part=attrs.evolve(part, low=part.low + low, high=part.low + high))
        for low, high in cut(
            part.high - part.low, UNIT.size, ReadOptions(path="", partitions=count)
        )
    ]
