"""Records that the log has lost keep their places in queues, also where their units are gone."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from small_store import ROOT, SEGMENT_SIZE, message, open_store, put_bodies, read_bodies
from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.timerstore.lost_places import LostPlaces
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import LOST_SIZE, UNIT
from timermq.timerstore.record_layout import FIXED_SIZE_V1
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_reader import remove_seals
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig, remove

QUEUE = f"{ROOT}/consumequeue/T/0"


def rot(rig: Rig, *numbers: int) -> None:
    """Let records of the log become zeros."""
    for number in numbers:
        start = POSITIONS[number] // SEGMENT_SIZE * SEGMENT_SIZE
        path = f"{ROOT}/commitlog/{start:020d}"
        rig.disk.rot(path, POSITIONS[number] - start, bytes(RECORD_SIZE))


def killed() -> Rig:
    """A store of twelve messages that was killed when all was durable and noted.

    Without seals: several records stand in a sector, and all of them count as damaged with them.
    """
    rig = Rig()
    rig.stop()
    rig.open()
    rig.disk.process_kill()
    remove_seals(rig.disk, f"{ROOT}/commitlog")
    return rig


def in_sectors_of(number: int) -> list[int]:
    """The records that stand in the same sectors as one."""
    first = POSITIONS[number] // SECTOR_SIZE * SECTOR_SIZE
    end = -(-(POSITIONS[number] + RECORD_SIZE) // SECTOR_SIZE) * SECTOR_SIZE
    return [one for one in range(12) if first - RECORD_SIZE < POSITIONS[one] < end]


def places(store: MessageStore) -> list[tuple[int, int]]:
    """Position and size of each unit of the queue."""
    queue = store.queue("T", 0)
    assert queue is not None
    units = [queue.units(number, 1)[0] for number in range(queue.min_offset, queue.max_offset)]
    return [(int(one["phy_offset"]), int(one["size"])) for one in units]


def bodies_without(*numbers: int) -> list[str]:
    """What is read where some messages are lost."""
    return [body for number, body in enumerate(BODIES[:12]) if number not in numbers]


def assert_keeps(rig: Rig, *numbers: int) -> MessageStore:
    """All but some messages are read, and these have their places still."""
    store = rig.open()
    assert bodies_without(*numbers) == read_bodies(store)
    shown = places(store)
    assert 12 == len(shown)
    for number in range(12):
        if number not in numbers:
            assert (POSITIONS[number], RECORD_SIZE) == shown[number]
    assert 12 == store.put([message()])[0].queue_offset
    return store


@pytest.mark.parametrize("zeroed", [3, 7])
@pytest.mark.parametrize("lost", [8, 11])
def test_the_unit_of_a_lost_record_is_found_behind_one_that_is_damaged(
    zeroed: int, lost: int
) -> None:
    """The queue ends at the damaged unit until it is made again; its file goes on."""
    rig = killed()
    rot(rig, lost)
    rig.write_unit(zeroed, bytes(20))
    store = assert_keeps(rig, lost)

    assert (POSITIONS[lost], RECORD_SIZE) == places(store)[lost]


def test_so_it_is_found_in_what_a_killed_process_had_not_noted() -> None:
    """The walk of the recovery comes by there: units tell it what stood in the hole."""
    rig = Rig(3)
    trio.run(partial(rig.store.flush, noted=True))
    put_bodies(rig.store, *BODIES[3:12])
    trio.run(rig.store.flush)
    rig.disk.process_kill()
    rot(rig, 8)
    rig.write_unit(6, bytes(20))

    store = assert_keeps(rig, *in_sectors_of(8))
    assert (POSITIONS[8], RECORD_SIZE) == places(store)[8]


@pytest.mark.parametrize("lost", [[4], [6, 7], [3, 8]])
def test_a_lost_record_whose_unit_is_damaged_too_keeps_its_place(lost: list[int]) -> None:
    """The next record tells that there was one, and damage in the log where."""
    rig = killed()
    rot(rig, *lost)
    for number in lost:
        rig.write_unit(number, bytes(20))
    store = assert_keeps(rig, *lost)

    assert all(places(store)[number][1] == LOST_SIZE for number in lost)


def test_such_a_place_stays_as_it_is() -> None:
    """A later start takes it as it finds it, whatever else is damaged then."""
    rig = killed()
    rot(rig, 4)
    rig.write_unit(4, bytes(20))
    before = places(assert_keeps(rig, 4))
    rig.disk.process_kill()
    rig.write_unit(9, bytes(20))
    store = rig.open()

    assert before == places(store)[: len(before)]
    assert 13 == store.put([message()])[0].queue_offset


def test_what_stands_at_such_a_place_is_no_message() -> None:
    """Also where the sector that the unit shows is as it was written."""
    rig = killed()
    rot(rig, 4)
    rig.write_unit(4, bytes(20))
    store = rig.open()
    queue = store.queue("T", 0)
    assert queue is not None
    queue.put_right(4, UNIT.pack(POSITIONS[5], LOST_SIZE, 0))

    assert bodies_without(4) == read_bodies(store)


@pytest.mark.parametrize("lost", [4, 11])
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_behind_the_removal_of_a_queue_that_has_lost_a_record(
    lost: int, writes: int
) -> None:
    """The old units are gone then, that of the lost record among them."""
    rig = killed()
    rot(rig, lost)
    rig.write_unit(2, UNIT.pack(POSITIONS[2], RECORD_SIZE, 4))
    rule = FaultRule(operations=[Operation.WRITE], name="T/0", skip=writes)
    with pytest.raises(OSError, match="Input/output error"):
        open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)
    rig.disk.process_kill()

    assert_keeps(rig, lost)


@pytest.mark.parametrize("lost", [4, 11])
def test_a_queue_whose_files_were_removed_and_that_has_lost_a_record(lost: int) -> None:
    """As an operator does, to have it made again."""
    rig = Rig()
    rig.stop()
    rot(rig, lost)
    remove(rig, QUEUE)

    assert_keeps(rig, *in_sectors_of(lost))


SIZE = FIXED_SIZE_V1


@pytest.mark.parametrize(
    ("first", "end", "count", "positions"),
    [
        (0, 1000, 1, [101]),
        (0, 1000, 2, [101, 102]),
        (0, 1000, 3, [101, 102, 501]),
        (0, 1000, 4, []),
        (100 + SIZE, 1000, 1, [101 + SIZE]),
        (100 + SIZE, 1000, 2, [101 + SIZE, 501]),
        (101 + SIZE, 1000, 1, [501]),
        (0, 100 + SIZE, 1, [101]),
        (0, 100 + SIZE, 2, []),
        (0, 99 + SIZE, 1, []),
        (500 + SIZE, 1000, 1, []),
        (0, 1000, 0, []),
    ],
)
def test_no_more_records_were_lost_than_fit(
    first: int, end: int, count: int, positions: list[int]
) -> None:
    """Two damaged stretches, of two records and of one."""
    lost = LostPlaces()
    lost.note(100, 100 + 2 * SIZE)
    lost.note(300, 300 + SIZE - 1)
    lost.note(500, 500 + SIZE)

    found = [UNIT.unpack(unit)[:2] for unit in lost.units(first, end, count)]
    assert [(position, LOST_SIZE) for position in positions] == found
