"""Records that a hole has lost, as the queues tell them."""

from __future__ import annotations

from small_store import SEGMENT_SIZE, message
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.lost_records import lost_records
from timermq.timerstore.queue_unit import UNIT
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE, Rig


def hole(first: int, last: int) -> Hole:
    """A hole over some records of `Rig`."""
    return Hole(POSITIONS[first], POSITIONS[last] + RECORD_SIZE, "damaged", False)


def offsets_in(rig: Rig, *holes: Hole) -> list[list[int]]:
    """The queue offsets that each hole has lost."""
    found = lost_records(rig.store.files, holes)
    assert [one.hole for one in found] == [*holes]
    return [[unit.queue_offset for unit in one.units] for one in found]


def test_each_hole_has_the_units_of_its_records() -> None:
    """Neighbours before and behind it are not among them."""
    assert offsets_in(Rig(), hole(1, 2), hole(6, 6), hole(10, 11)) == [[1, 2], [6], [10, 11]]


def test_a_record_that_the_hole_has_in_part_is_not_lost() -> None:
    """It stands before the hole or behind it, and is judged by itself."""
    inner = Hole(POSITIONS[1] + 1, POSITIONS[4] - 1, "damaged", False)

    assert offsets_in(Rig(), inner) == [[2]]


def test_units_of_several_queues_are_in_the_order_of_the_log() -> None:
    """Each says which place it had."""
    rig = Rig(2)
    for topic in ("B", "A", "B"):
        rig.store.put([message(topic=topic)])
    start = POSITIONS[2]
    (lost,) = lost_records(rig.store.files, [Hole(start, SEGMENT_SIZE, "damaged", False)])

    assert [(one.topic, one.queue_offset) for one in lost.units] == [("B", 0), ("A", 0), ("B", 1)]
    assert lost.units[0].phy_offset == start
    assert lost.units[1].phy_offset == lost.units[0].end


def test_a_damaged_unit_tells_nothing() -> None:
    """The units behind it in the queue are not asked: ``lost_places`` finds what is missing."""
    rig = Rig()
    rig.write_unit(2, UNIT.pack(1 << 40, RECORD_SIZE, 0))

    assert offsets_in(rig, hole(1, 3)) == [[1]]
