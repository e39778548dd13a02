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

from .consume_queue_table import ConsumeQueueTable
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
        """Position in the log behind the record."""
        return self.phy_offset + self.size


@attrs.frozen
class LostRecords:
    """The lost content of one hole."""

    hole: Hole
    units: tuple[PlacedUnit, ...]
    """In the order of the log."""


def lost_records(store: StoreFiles, holes: Iterable[Hole]) -> tuple[LostRecords, ...]:
    """The lost content of the holes; queues must not be cut yet.

    Of a record whose unit is damaged too, or was not made yet, nothing is told here: if another one
    of its queue stands behind the hole, ``lost_places`` finds that it is missing.
    """
    return tuple(LostRecords(hole, tuple(_units_in(store.queues, hole))) for hole in holes)


def _units_in(queues: ConsumeQueueTable, hole: Hole) -> list[PlacedUnit]:
    units: list[PlacedUnit] = []
    for queue in queues:
        first = queue.find_phy_offset(hole.position, queue.min_offset, queue.max_offset)
        for at in range(first, max(queue.max_offset, queue.written_end)):
            packed = queue.written(at)
            phy_offset, size, _ = UNIT.unpack(packed) if packed else (0, 0, 0)
            if hole.position <= phy_offset < phy_offset + size <= hole.end:
                units.append(PlacedUnit(queue.topic, queue.queue_id, at, phy_offset, size, packed))
            elif at < queue.max_offset:
                break
    return sorted(units, key=lambda one: one.phy_offset)
