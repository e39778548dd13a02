"""Records that a damaged part of the log has lost, as the consume queues tell them.

When queues are made again from the log behind the checkpoint, a lost record has no place in them,
and its queue offset would be given out again. A process that was killed left its units, though: of
each record that was acknowledged, for it was brought to its queue before. So the units are read
before the queues are cut, and take their places among those that are made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from .boot_note import NAME
from .consume_queue_table import ConsumeQueueTable
from .errors import StoreFormatError
from .log_holes import Hole
from .queue_unit import UNIT
from .store_files import StoreFiles


class PlacedUnit(NamedTuple):
    """A unit of a queue, and where it belongs; a tuple, since millions are made in a recovery."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    packed: bytes

    @property
    def end(self) -> int:
        """Where the record ended."""
        return self.phy_offset + self.size


@attrs.frozen
class LostRecords:
    """What stood in one hole."""

    hole: Hole
    units: tuple[PlacedUnit, ...]
    """In the order of the log."""


def lost_records(store: StoreFiles, holes: Iterable[Hole]) -> tuple[LostRecords, ...]:
    """What stood in the holes; queues must not be cut yet.

    Where a hole was brought to queues long ago the queues tell where it was, if they tell less than
    all of it (``lost_places``).

    Raises:
        StoreFormatError: The queues do not tell all of what a killed process may not have brought
            to them.
    """
    return tuple(LostRecords(hole, _units_of(store, hole)) for hole in holes)


def _units_of(store: StoreFiles, hole: Hole) -> tuple[PlacedUnit, ...]:
    units = sorted(_units_in(store.queues, hole), key=lambda one: one.phy_offset)
    end = hole.position
    for one in units:
        if one.phy_offset > end:
            break
        end = max(end, one.end)
    # A blank behind the last record of a segment has no unit.
    is_known = (
        end == hole.end
        or (hole.reaches_segment_end and end > hole.position)
        or hole.end <= (store.checkpoint.durable_py or 0)
    )
    if not is_known:
        segment = store.log.segment_at(hole.position)
        assert segment is not None
        at = end - segment.start
        expected = (
            f"records up to {hole.end}, or the queue units of all of them, since the process was "
            f"killed and no power cut (without {NAME} the log ends here, as after one)"
        )
        raise StoreFormatError(segment.file.path, at, expected, hole.reason)
    return tuple(units)


def _units_in(queues: ConsumeQueueTable, hole: Hole) -> Iterable[PlacedUnit]:
    for queue in queues:
        first = queue.find_phy_offset(hole.position, queue.min_offset, queue.max_offset)
        for at in range(first, max(queue.max_offset, queue.written_end)):
            packed = queue.written(at)
            phy_offset, size, _ = UNIT.unpack(packed) if packed else (0, 0, 0)
            if hole.position <= phy_offset < phy_offset + size <= hole.end:
                yield PlacedUnit(queue.topic, queue.queue_id, at, phy_offset, size, packed)
            elif at < queue.max_offset:
                break
