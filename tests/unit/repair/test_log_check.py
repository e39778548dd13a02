"""The walk over the commit log: records against queues, and what is missing of either."""

from __future__ import annotations

import pytest

from small_store import ROOT, SEGMENT_SIZE, message, open_store, put_bodies
from timermq.repair.finding import Finding, Step
from timermq.repair.log_check import LogCheck
from timermq.repair.store_rule import Severity
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record_layout import QUEUE_OFFSET_AT
from unit.repair.small_checks import checked, put, steps, stopped, walked
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE, Rig, remove

END = POSITIONS[11] + RECORD_SIZE
QUEUE = "consumequeue/T/0"


def rot(disk: MemoryDisk, at: int, data: bytes) -> None:
    """Let bytes of the log be others."""
    start = at - at % SEGMENT_SIZE
    disk.rot(f"{ROOT}/commitlog/{start:020d}", at - start, data)


def all_of(disk: MemoryDisk) -> tuple[LogCheck, list[Finding]]:
    """A walk, with its notes."""
    log = checked(disk).open_log(())
    found = list(log.run())
    log.close()
    return log, found


def test_a_sound_store_has_no_findings_and_is_known_by_its_walk() -> None:
    """Begin, end and next offsets are what repairs go by."""
    log, found = all_of(stopped())

    assert found == []
    assert (log.start, log.end, log.record_count) == (0, END, 12)
    assert log.begins == {("T", 0): 0}
    assert log.ends == {("T", 0): 12}
    assert (log.next_offset("T", 0), log.next_offset("U", 3)) == (12, 0)


def test_a_hole_lacks_the_offset_of_its_record() -> None:
    """It is filled, and a record that says so takes the place in the queue."""
    disk = stopped()
    rot(disk, POSITIONS[6], bytes(RECORD_SIZE))
    log, found = walked(disk)

    assert steps(found) == [("RECORD_DAMAGED", Step.FILL_HOLE), ("RECORD_MISSING", Step.MARK_LOST)]
    assert [(one.position, one.end) for one in log.holes] == [(POSITIONS[6], POSITIONS[7])]
    assert [(one.first, one.end) for one in log.gaps] == [(6, 7)]
    assert log.hole_store_ms[POSITIONS[6]] > 1


def test_an_end_that_was_there_for_certain_is_lost_and_no_tail() -> None:
    """The register has it from the clean stop: its messages are told as missing."""
    disk = stopped()
    rot(disk, POSITIONS[11], bytes(RECORD_SIZE))
    log, found = walked(disk)

    assert {one.rule.name for one in found} >= {"RECORD_MISSING"}
    assert [(one.first, one.end) for one in log.gaps] == [(11, 12)]
    assert log.ends == {("T", 0): 12}


def test_neighbouring_units_that_differ_are_one_finding() -> None:
    """Runs that do not touch are several."""
    disk = stopped()
    for offset in (2, 3, 8):
        put(disk, f"{QUEUE}/{offset // 5 * 100:020d}", UNIT.pack(1, 2, 3), offset % 5 * 20)
    _, found = walked(disk)

    assert [(one.step, one.offset, one.count) for one in found] == [
        (Step.REBUILD_QUEUE, 40, 2),
        (Step.REBUILD_QUEUE, 160, 1),
    ]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_newest_units_that_lack_are_no_damage_behind_a_kill(*, is_stopped: bool) -> None:
    """The next start makes them; behind a clean stop they were there."""
    rig = Rig()
    if is_stopped:
        rig.stop()
    else:
        rig.kill()
    rig.disk.remove(f"{ROOT}/checkpoint")
    for offset in (10, 11):
        put(rig.disk, f"{QUEUE}/{200:020d}", bytes(20), offset % 5 * 20)
    _, found = all_of(rig.disk)
    (queue,) = [one for one in found if one.file == QUEUE]

    assert (queue.severity is Severity.NOTE) != is_stopped
    assert (queue.step is Step.NOTHING) != is_stopped


def test_a_unit_behind_the_last_record_is_another_end_than_the_logs() -> None:
    """A message would be consumed that is not there."""
    disk = stopped()
    put(disk, f"{QUEUE}/{200:020d}", UNIT.pack(POSITIONS[3], RECORD_SIZE, 0), 40)
    _, found = walked(disk)

    assert [(one.step, one.offset) for one in found] == [(Step.REBUILD_QUEUE, 12 * 20)]
    assert "12 to be the next offset" in found[0].expected


def test_a_record_with_another_offset_is_put_right_by_its_unit() -> None:
    """The unit shows it at the place that it has lost."""
    disk = stopped()
    rot(disk, POSITIONS[6] + QUEUE_OFFSET_AT, (77).to_bytes(8))
    log, found = walked(disk)

    assert ("RECORD_DAMAGED", Step.REPAIR_RECORD) in steps(found)
    assert (log.gaps, [one.queue_offset for one in log.repairs]) == ([], [6])


def test_a_queue_whose_files_are_lost_is_made_again() -> None:
    """All of its units lack; the log has every record."""
    disk = stopped()
    for name in disk.list_dir(f"{ROOT}/{QUEUE}"):
        disk.remove(f"{ROOT}/{QUEUE}/{name}")
    _, found = walked(disk)

    assert [(one.step, one.count, one.found) for one in found] == [
        (Step.REBUILD_QUEUE, 12, "no unit")
    ]


def test_a_queue_without_records_in_the_log_is_dead() -> None:
    """Units that name records of the log are wrong; of those before it nothing is known."""
    disk = stopped()
    put(disk, f"consumequeue/U/3/{0:020d}", UNIT.pack(POSITIONS[2], RECORD_SIZE, 0) + bytes(80))
    log, found = walked(disk)

    assert [(one.file, one.severity, one.step) for one in found] == [
        ("consumequeue/U/3", Severity.LOST, Step.REBUILD_QUEUE)
    ]
    assert log.ends["U", 3] == 0


def test_a_queue_all_of_whose_records_are_in_holes_begins_in_the_first() -> None:
    """Nothing but its units tells of it: their places are marked as lost."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    (lost,) = store.put([message("b" * 50, topic="U")])
    put_bodies(store, "c")
    rig = Rig(0)
    rig.store, rig.disk = store, disk
    rig.stop()
    rot(disk, lost.phy_offset, bytes(lost.size))
    log, _ = walked(disk)

    assert [(one.topic, one.first, one.end) for one in log.gaps] == [("U", 0, 1)]
    assert log.begins["U", 0] == lost.phy_offset


def test_a_deleted_topic_lacks_nothing() -> None:
    """Its records stay in the log until it is cleaned."""
    rig = Rig()
    rig.store.files.register.delete_topic("T", rig.store.commit_log.max_offset)
    rig.stop()
    remove(rig, f"{ROOT}/consumequeue/T/0")
    log, found = walked(rig.disk)

    assert (found, log.begins) == ([], {})
