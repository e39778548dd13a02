"""Damaged queues: they are made again from the log, or the start says which file it cannot take."""

from __future__ import annotations

import errno
from functools import partial

import pytest
import trio

from fakes import START_MS, ManualClock
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    message,
    open_store,
    put_bodies,
    read_bodies,
    small_options,
)
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record_layout import QUEUE_OFFSET_AT
from timermq.timerstore.seal_reader import remove_seals
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig

QUEUE = f"{ROOT}/consumequeue/T/0"
ALL = BODIES[:12]
SPLIT = 102
"""A unit in which a sector ends, behind its first eight bytes."""
AGAIN = "queues made again from the start of the log: [('T', 0)]"


def killed() -> Rig:
    """A store of twelve messages that was killed; the first ones were durable, with their units."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(START_MS + 10_000, START_MS + 10_000)
    return rig


def unit(number: int, *, position: int = 0, size: int = 0) -> bytes:
    """The unit of a message, with something added."""
    return UNIT.pack(POSITIONS[number] + position, RECORD_SIZE + size, 0)


DAMAGED = {
    "zero": bytes(20),
    "position far behind": unit(3, position=1 << 50),
    "position before": unit(3, position=-(1 << 40)),
    "position off by one": unit(3, position=1),
    "negative size": unit(3, size=-(1 << 31)),
    "size off by one": unit(3, size=-1),
    "another's": unit(5),
    "tags": UNIT.pack(POSITIONS[3], RECORD_SIZE, 4),
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_damaged_unit_does_not_end_its_queue(damage: str, read_only: bool) -> None:
    """All that stands behind it stays, and no queue offset is given out again."""
    rig = killed()
    rig.write_unit(3, DAMAGED[damage])
    store = rig.open(read_only=read_only)

    assert ALL == read_bodies(store)
    assert AGAIN in store.recovery.notes
    if not read_only:
        assert 12 == store.put([message()])[0].queue_offset


@pytest.mark.parametrize("damage", ["zero", "position before", "negative size"])
def test_a_damaged_unit_of_a_stopped_store(damage: str) -> None:
    """Without a kill as well."""
    rig = Rig()
    rig.stop()
    rig.write_unit(8, DAMAGED[damage])

    assert ALL == read_bodies(rig.open())


@pytest.mark.parametrize("damage", [bytes(20), unit(9, position=1 << 50), unit(9, size=-1)])
def test_the_last_durable_unit_is_not_dropped(damage: bytes) -> None:
    """Nothing stands behind it that would show that it is damaged, but its record."""
    rig = killed()
    for number in (10, 11):
        rig.write_unit(number, bytes(20))
    rig.write_unit(9, damage)

    assert ALL == read_bodies(rig.open())


def test_what_a_power_cut_left_is_no_damage() -> None:
    """Units that were not durable may be missing before others: they come from the log's end."""
    rig = killed()
    rig.write_unit(10, bytes(20))
    store = rig.open()

    assert ALL == read_bodies(store)
    assert () == store.recovery.notes


def test_a_part_of_a_unit_that_a_power_cut_left_is_no_damage() -> None:
    """The queue is not made again, which damage in the log would not allow."""
    disk, clock = MemoryDisk(), ManualClock()
    options = small_options(mapped_file_size_consume_queue=4_000)
    store = open_store(disk, clock, options)
    put_bodies(store, *["x"] * SPLIT)
    queue = store.queue("T", 0)
    assert queue is not None
    lost_py = int(queue.units(50, 1)["phy_offset"][0])
    trio.run(partial(store.flush, noted=True))
    put_bodies(store, "y")
    trio.run(store.flush)
    disk.process_kill()
    start = lost_py - lost_py % SEGMENT_SIZE
    disk.rot(f"{ROOT}/commitlog/{start:020d}", lost_py - start + QUEUE_OFFSET_AT, b"\xff" * 8)
    disk.rot(f"{QUEUE}/{0:020d}", SPLIT * UNIT.size + 8, bytes(12))
    store = open_store(disk, clock, options)

    assert () == store.recovery.notes
    assert "y" == read_bodies(store)[-1]
    assert SPLIT + 1 == store.put([message()])[0].queue_offset


def test_a_segment_that_is_missing_between_others() -> None:
    """The queue is made again instead of refused."""
    rig = killed()
    rig.disk.remove(f"{QUEUE}/{100:020d}")
    store = rig.open()

    assert ALL == read_bodies(store)
    assert f"{QUEUE}/{200:020d}: at 0: expected the segment" in store.recovery.notes[0]


@pytest.mark.parametrize("start", [0, 100, 200])
@pytest.mark.parametrize("size", [0, 50, 99, 101])
def test_a_segment_of_another_length(start: int, size: int) -> None:
    """Where another queue shows that the settings are those of the store."""
    rig = Rig()
    put_bodies(rig.store, "other", topic="U")
    rig.kill()
    rig.set_checkpoint(START_MS + 99_000, START_MS + 99_000)
    rig.disk.open(f"{QUEUE}/{start:020d}").truncate(size)
    store = rig.open()

    assert ALL == read_bodies(store)
    assert 12 == store.put([message()])[0].queue_offset


@pytest.mark.parametrize("operation", [Operation.OPEN, Operation.READ])
def test_a_queue_that_cannot_be_read_is_made_again(operation: Operation) -> None:
    """Its blocks are gone; the next start does not meet them any more."""
    rig = Rig()
    put_bodies(rig.store, "other", topic="U")
    rig.kill()
    rule = FaultRule(operations=[operation], name="T/0", fault=Fault(errno.EIO))
    store = open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)

    assert (ALL, ["other"]) == (read_bodies(store), read_bodies(store, "U"))
    assert 12 == store.put([message()])[0].queue_offset


@pytest.mark.parametrize("zeros", [8, RECORD_SIZE])
def test_damage_of_another_queue_does_not_end_a_queue_that_is_made_again(zeros: int) -> None:
    """The log is read on behind it: what stands there stays, and keeps its numbers."""
    rig = Rig(3)
    put_bodies(rig.store, "o" * 100, topic="U")
    put_bodies(rig.store, *BODIES[3:12])
    rig.kill()
    rig.set_checkpoint(START_MS + 12_000, START_MS + 12_000)
    rig.disk.rot(f"{ROOT}/commitlog/{0:020d}", POSITIONS[3], bytes(zeros))
    rule = FaultRule(operations=[Operation.READ], name="T/0", fault=Fault(errno.EIO))
    store = open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)

    assert ALL == read_bodies(store)
    assert 12 == store.put([message()])[0].queue_offset
    assert 1 == store.put([message(topic="U")])[0].queue_offset


def test_other_settings_are_refused() -> None:
    """Files of queues that all have another length are not damaged."""
    rig = Rig()
    rig.stop()
    before = rig.contents()
    for start in (0, 100, 200):
        rig.disk.open(f"{QUEUE}/{start:020d}").truncate(80)
    with pytest.raises(StoreFormatError, match="expected a segment of 100 bytes, found 80"):
        rig.open()

    assert before.keys() == rig.contents().keys()


def test_a_queue_whose_record_is_gone_is_refused() -> None:
    """The numbers behind it could not stay what they are; nothing is changed."""
    rig = killed()
    rig.write(POSITIONS[4] + 20, (99).to_bytes(8))  # the queue offset that the record states
    rig.write_unit(4, bytes(20))
    before = rig.contents()
    expected = f"{QUEUE}: at 80: expected a record of the log for unit 4"
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()

    assert before == rig.contents()


FRONTS = {"a whole position": 8, "half the size": 11, "half a position": 7}


def with_lost_record(number: int, *, front: int = 0) -> Rig:
    """A store that was killed while it wrote the unit behind its twelve; a record has rotted."""
    rig = Rig()
    rig.stop()
    rig.open()
    rig.disk.process_kill()
    path = f"{ROOT}/commitlog/{POSITIONS[number] // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    rig.disk.rot(path, POSITIONS[number] % SEGMENT_SIZE, bytes(RECORD_SIZE))
    rig.write_unit(12, unit(12)[:front])
    return rig


def shown(store: MessageStore) -> list[int]:
    """Where the records stand that the queue shows."""
    queue = store.queue("T", 0)
    assert queue is not None
    numbers = range(queue.min_offset, queue.max_offset)
    return [int(queue.units(number, 1)["phy_offset"][0]) for number in numbers]


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("lost", [4, 11])
def test_a_kill_within_a_unit_of_a_queue_that_has_lost_a_record(front: str, lost: int) -> None:
    """The log does not tell of the record; its unit stays, and the start is not refused."""
    rig = with_lost_record(lost, front=FRONTS[front])
    store = rig.open()

    assert POSITIONS[:12] == shown(store)
    assert 12 == store.put([message()])[0].queue_offset


def test_a_queue_with_a_lost_record_that_is_made_again_keeps_its_unit() -> None:
    """Another unit is damaged, so all are made again from the log."""
    rig = with_lost_record(4)
    rig.write_unit(8, UNIT.pack(POSITIONS[8], RECORD_SIZE, 4))
    store = rig.open()

    assert POSITIONS[:12] == shown(store)
    assert AGAIN in store.recovery.notes
    assert 12 == store.put([message()])[0].queue_offset


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_process_that_ends_while_it_makes_the_end_of_such_a_queue_again(writes: int) -> None:
    """What the log does not tell of is never taken out of the files."""
    rig = Rig(10)
    trio.run(partial(rig.store.flush, noted=True))
    put_bodies(rig.store, *BODIES[10:12])
    rig.disk.process_kill()
    rig.disk.rot(f"{ROOT}/commitlog/{0:020d}", POSITIONS[4], bytes(RECORD_SIZE))
    rig.write_unit(12, unit(12)[:7])
    rule = FaultRule(operations=[Operation.WRITE], name="T/0", skip=writes)
    with pytest.raises(OSError, match="Input/output error"):
        open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)
    rig.disk.process_kill()
    store = rig.open()

    assert POSITIONS[:12] == shown(store)
    assert 12 == store.put([message()])[0].queue_offset


def test_a_process_that_ends_while_it_makes_a_queue_again() -> None:
    """The register says where the queue ends, so the next start does not take the part for it."""
    rig = killed()
    rig.write_unit(3, bytes(20))
    rule = FaultRule(operations=[Operation.WRITE], name="T/0", skip=1)
    with pytest.raises(OSError, match="Input/output error"):
        open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)
    rig.disk.process_kill()

    assert ALL == read_bodies(rig.open())


def test_numbers_of_cleaned_records_are_not_given_out_again() -> None:
    """A queue of which the log holds nothing goes on where its files ended."""
    rig = Rig(3)
    put_bodies(rig.store, "old", topic="U")
    put_bodies(rig.store, *BODIES[3:12])
    rig.kill()
    rig.disk.open(f"{ROOT}/consumequeue/U/0/{0:020d}").truncate(60)
    rig.disk.remove(f"{ROOT}/commitlog/{0:020d}")
    store = rig.open()

    assert 1 == store.put([message(topic="U")])[0].queue_offset


def bounds(store: MessageStore) -> tuple[int, int]:
    """Lowest and next offset of the queue of U."""
    queue = store.queue("U", 0)
    assert queue is not None
    return queue.min_offset, queue.max_offset


def with_cleaned_queue() -> Rig:
    """A killed store whose log holds no record of the queue of U, which has seven units."""
    rig = Rig(0)
    put_bodies(rig.store, *BODIES[:7], topic="U")
    put_bodies(rig.store, *BODIES[7:12])
    rig.kill()
    for number in (0, 1):
        rig.disk.remove(f"{ROOT}/commitlog/{number * SEGMENT_SIZE:020d}")
    return rig


@pytest.mark.parametrize("operation", [Operation.OPEN, Operation.READ])
def test_a_queue_that_nothing_tells_the_end_of_skips_to_the_end_of_its_file(
    operation: Operation,
) -> None:
    """Its file cannot be read: no number may be given out again, and the start goes on."""
    rig = with_cleaned_queue()
    rule = FaultRule(operations=[operation], name="U/0", count=None)
    faulty = open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)
    assert (10, 10) == bounds(faulty)
    rig.disk.process_kill()

    assert 10 == rig.open().put([message(topic="U")])[0].queue_offset


@pytest.mark.parametrize("size", [20, 30, 40])
def test_a_queue_that_may_have_been_cut_among_its_units_skips_to_the_end_of_its_file(
    size: int,
) -> None:
    """Of two units in its newest file at least one is there, and nothing behind them."""
    rig = with_cleaned_queue()
    rig.disk.open(f"{ROOT}/consumequeue/U/0/{100:020d}").truncate(size)

    assert 10 == rig.open().put([message(topic="U")])[0].queue_offset


@pytest.mark.parametrize("damage", [bytes(40), b"x"], ids=["sizes", "a bit"])
def test_the_place_of_a_damaged_last_record_is_kept_where_its_queue_is_made_again(
    damage: bytes,
) -> None:
    """The log does not tell of it, and its file could not be read the first time."""
    rig = Rig(6)
    put_bodies(rig.store, *BODIES[6:9], topic="U")
    rig.stop()
    rig.write(POSITIONS[5] + 30, damage)
    rule = FaultRule(operations=[Operation.READ], name="T/0", count=1)
    store = open_store(FaultyDisk(rig.disk, ROOT, FaultRules(rule)), rig.clock)

    assert 6 == store.put([message()])[0].queue_offset


def test_a_queue_without_records_that_was_stopped_goes_on_by_the_register() -> None:
    """Its files are not asked."""
    rig = with_cleaned_queue()
    trio.run(rig.open().aclose)
    rig.disk.open(f"{ROOT}/consumequeue/U/0/{100:020d}").truncate(20)

    assert 7 == rig.open().put([message(topic="U")])[0].queue_offset


def test_numbers_of_cleaned_records_outlast_a_power_cut() -> None:
    """The register says where a queue ended of which neither the log nor a file tells."""
    rig = Rig(3)
    put_bodies(rig.store, "old", topic="U")
    put_bodies(rig.store, *BODIES[3:12])
    rig.stop()
    rig.disk.remove(f"{ROOT}/commitlog/{0:020d}")
    rig.disk.remove(f"{ROOT}/consumequeue/U/0/{0:020d}")
    store = rig.open()

    assert 1 == store.put([message(topic="U")])[0].queue_offset


@pytest.mark.parametrize("damaged", [bytes(RECORD_SIZE), b"\x55" * RECORD_SIZE])
@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
def test_the_number_of_a_damaged_record_is_not_given_out_again(damaged: bytes, stop: bool) -> None:
    """Its unit is the last of its queue; without seals the records around it tell."""
    rig = Rig(4)
    rig.store.put([message("u", "U")])
    rig.stop()
    if not stop:
        rig.open()
        rig.disk.process_kill()
    remove_seals(rig.disk, f"{ROOT}/commitlog")
    rig.write(POSITIONS[3], damaged)
    store = rig.open()

    assert 4 == store.put([message()])[0].queue_offset
    assert BODIES[:3] == read_bodies(store)[:3]
