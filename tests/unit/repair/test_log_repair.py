"""The commit log repaired in its place, with a backup before the first change."""

from __future__ import annotations

import pytest

from small_store import ROOT, SEGMENT_SIZE, read_bodies
from timermq.repair.backup import Backup
from timermq.repair.finding import Finding
from timermq.repair.log_check import LogCheck
from timermq.repair.log_repair import LogRepair, zero_behind
from timermq.simulator.disks.fault_plan import Access, Fault, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.record_layout import QUEUE_ID_AT
from unit.repair.small_checks import checked, content, put, stopped
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig

END = POSITIONS[11] + RECORD_SIZE
LAST = "commitlog/00000000000000002048"


def rot(disk: MemoryDisk, at: int, data: bytes) -> None:
    """Let bytes of the log be others."""
    start = at - at % SEGMENT_SIZE
    disk.rot(f"{ROOT}/commitlog/{start:020d}", at - start, data)


def repaired(disk: MemoryDisk) -> tuple[bool, LogRepair, Backup]:
    """Check the log and repair it; whether anything was changed."""
    log, found = looked_at(disk)
    backup = Backup(disk, ROOT, 0)
    repair = LogRepair(disk, ROOT, backup, log)
    is_changed = repair.run(found)
    log.close()
    return is_changed, repair, backup


def looked_at(disk: MemoryDisk) -> tuple[LogCheck, list[Finding]]:
    """A walk that is done, and its findings."""
    log = checked(disk).open_log(())
    return log, list(log.run())


def served(disk: MemoryDisk) -> list[str]:
    """Bodies of the queue as the next start gives them; of lost messages zeros, left out."""
    rig = Rig(0)
    rig.disk = disk
    return [body.strip("\0") for body in read_bodies(rig.open())]


def test_a_sound_log_is_left_alone() -> None:
    """Nothing is kept, and nothing written."""
    disk = stopped()
    before = content(disk, LAST)
    is_changed, _, backup = repaired(disk)

    assert (is_changed, backup.kept) == (False, [])
    assert content(disk, LAST) == before


def test_a_hole_is_filled_and_its_place_marked() -> None:
    """The segment is kept as it was; the records around it are as they were."""
    disk = stopped()
    rot(disk, POSITIONS[6], bytes(RECORD_SIZE))
    damaged = content(disk, "commitlog/00000000000000001024")
    is_changed, repair, backup = repaired(disk)

    assert is_changed
    assert (repair.unplaced, backup.kept) == ([], ["commitlog/00000000000000001024"])
    assert content(disk, f"{backup.directory}/{backup.kept[0]}") == damaged
    assert served(disk) == [*BODIES[:6], "", *BODIES[7:12]]
    assert not repaired(disk)[0]


def test_a_head_is_put_right_and_its_body_stays() -> None:
    """The queue that the neighbours and the unit tell."""
    disk = stopped()
    rot(disk, POSITIONS[6] + QUEUE_ID_AT, (9).to_bytes(4))
    is_changed, _, _ = repaired(disk)

    assert is_changed
    assert served(disk) == BODIES[:12]


@pytest.mark.parametrize("size", [SEGMENT_SIZE - 60, SEGMENT_SIZE + 60])
def test_a_segment_gets_its_length_again(size: int) -> None:
    """What a short one lacks is zeros then, and looked at as a hole by the next round."""
    disk = stopped()
    path = f"{ROOT}/commitlog/00000000000000001024"
    disk.open(path).truncate(size)
    assert repaired(disk)[0]

    assert disk.open(path).size() == SEGMENT_SIZE


def test_a_missing_segment_is_made_again() -> None:
    """Its messages are lost: their places are marked, and the queue has no gap."""
    disk = stopped()
    disk.remove(f"{ROOT}/commitlog/00000000000000001024")
    assert repaired(disk)[0]

    assert not repaired(disk)[0]
    assert served(disk) == [*BODIES[:5], *[""] * 5, *BODIES[10:12]]


def test_a_tail_is_cut_and_kept() -> None:
    """What stands behind the last record is zeros then; a further segment goes."""
    disk = stopped()
    put(disk, LAST, b"?" * 40, END % SEGMENT_SIZE)
    put(disk, "commitlog/00000000000000003072", bytes(SEGMENT_SIZE))
    is_changed, _, backup = repaired(disk)
    tail = content(disk, LAST)[END % SEGMENT_SIZE :]

    assert is_changed
    assert tail == bytes(len(tail))
    assert backup.kept == [LAST, "commitlog/00000000000000003072"]
    assert b"?" * 40 in content(disk, f"{backup.directory}/{LAST}")
    assert served(disk) == BODIES[:12]


def test_zeros_are_not_written_again() -> None:
    """A file of gigabytes stays a file of holes."""
    disk = MemoryDisk()
    put(disk, "a", b"xx" + bytes(50) + b"y")
    writes: list[int] = []

    def plan(access: Access) -> Fault | None:
        if access.operation is Operation.WRITE:
            writes.append(access.offset)
        return None

    zero_behind(FaultyDisk(disk, ROOT, plan), f"{ROOT}/a", 2)
    assert content(disk, "a") == b"xx" + bytes(51)
    zero_behind(FaultyDisk(disk, ROOT, plan), f"{ROOT}/a", 2)

    assert writes == [2]
