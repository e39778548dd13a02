"""The small files of a stopped store: tables, the checkpoint, and what does not belong."""

from __future__ import annotations

import json

import pytest

from small_store import ROOT, put_bodies
from timermq.repair.finding import Finding, Step
from timermq.repair.store_rule import Severity
from timermq.repair.table_check import OffsetClamp, TableCheck, read_table, table_problem
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from unit.repair.small_checks import put, stopped, walked
from unit.timerstore.stopped_store import Rig

OFFSETS = "config/consumerOffset.json"


def found(disk: MemoryDisk) -> list[Finding]:
    """Everything that is wrong with the small files of a store."""
    log, _ = walked(disk)
    return list(TableCheck(disk, ROOT, log).find())


def table(name: str, rows: dict[str, object]) -> bytes:
    """A table with rows under one key."""
    return json.dumps({name: rows}).encode()


def told(findings: list[Finding]) -> list[tuple[str, Severity, Step]]:
    """File, severity and step of findings."""
    return [(one.file, one.severity, one.step) for one in findings]


def test_a_sound_store_has_no_findings() -> None:
    """Offsets up to the end of the queue, and topics that the table has."""
    disk = stopped()
    put(disk, OFFSETS, table("offsetTable", {"T@G": {"0": 12}}))
    put(disk, "config/topics.json", table("topicConfigTable", {"T": {}}))

    assert told(found(disk)) == []


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff{}"])
@pytest.mark.parametrize(
    ("name", "backup", "severity"),
    [
        ("topics.json", None, Severity.LOST),
        ("topics.json", b"{}", Severity.DERIVED),
        ("consumeQueues.json", None, Severity.DERIVED),
        ("timermetrics", None, Severity.DERIVED),
    ],
)
def test_a_table_that_cannot_be_read_is_lost_without_a_backup(
    damage: bytes, name: str, backup: bytes | None, severity: Severity
) -> None:
    """Unless it is made again from other files."""
    disk = stopped(0)
    put(disk, f"config/{name}", damage)
    disk.open(f"{ROOT}/config/{name}").truncate(len(damage))
    if backup is not None:
        put(disk, f"config/{name}.bak", backup)
    elif disk.exists(f"{ROOT}/config/{name}.bak"):
        disk.remove(f"{ROOT}/config/{name}.bak")

    assert (f"config/{name}", severity, Step.RESTORE_TABLE) in told(found(disk))


def test_a_damaged_backup_is_moved_and_its_table_stays() -> None:
    """It would be taken for the table when that is lost."""
    disk = stopped(0)
    put(disk, "config/topics.json", b"{}")
    put(disk, "config/topics.json.bak", b"{")

    assert told(found(disk)) == [("config/topics.json.bak", Severity.DERIVED, Step.BACK_UP_FILE)]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_kill_between_two_renames_leaves_the_backup_alone(*, is_stopped: bool) -> None:
    """The next start takes it; behind a clean stop the table was lost in another way."""
    rig = Rig(0)
    if is_stopped:
        rig.stop()
    else:
        rig.kill()
    put(rig.disk, "config/topics.json.bak", b"{}")
    (one,) = [one for one in found(rig.disk) if one.file == "config/topics.json"]

    assert (one.severity is Severity.NOTE) != is_stopped
    assert one.found == "no file; its .bak can be read"


def test_offsets_beyond_their_queue_are_clamped_to_its_end() -> None:
    """Of groups and of classic levels, negative ones too; odd rows are passed over."""
    rig = Rig()
    put_bodies(rig.store, "x", topic="SCHEDULE_TOPIC_XXXX", queue_id=3)
    rig.stop()
    disk = rig.disk
    put(disk, OFFSETS, table("offsetTable", {"T@G": {"0": 13, "1": 0, "x": 5}, "T@H": {"0": -1}}))
    put(disk, "config/delayOffset.json", table("offsetTable", {"3": 1, "4": 1}))

    assert [one.subject for one in found(disk) if one.step is Step.CLAMP_OFFSET] == [
        OffsetClamp("consumerOffset.json", "T@G", 0, 12),
        OffsetClamp("consumerOffset.json", "T@H", 0, 12),
        OffsetClamp("delayOffset.json", "", 3, 0),
    ]


def test_a_topic_with_messages_is_missed_by_a_store_that_a_broker_has_served() -> None:
    """One without tables has never had any; a broker makes its own topics by itself."""
    rig = Rig()
    put_bodies(rig.store, "x", topic="%RETRY%H")
    rig.stop()
    disk = rig.disk
    assert [one for one in found(disk) if one.step is Step.ADD_TOPIC] == []
    put(disk, "config/topics.json", table("topicConfigTable", {"%RETRY%G": {}}))
    (one,) = [one for one in found(disk) if one.step is Step.ADD_TOPIC]

    assert one.subject == ("T", 1)


def test_a_checkpoint_of_another_size_is_reset() -> None:
    """A store without records needs none."""
    disk = stopped()
    disk.open(f"{ROOT}/checkpoint").truncate(7)
    empty = MemoryDisk()
    empty.make_dirs(ROOT)

    assert told(found(disk)) == [("checkpoint", Severity.DERIVED, Step.RESET_CHECKPOINT)]
    assert [one for one in found(empty) if one.file == "checkpoint"] == []


@pytest.mark.parametrize("changes", [(10**15, 0), (0, 10**15), (-5, 0)])
def test_a_checkpoint_that_says_more_than_the_log_has_is_reset(changes: tuple[int, int]) -> None:
    """A start would begin behind records that it has to read."""
    rig = Rig()
    rig.stop()
    rig.set_checkpoint(*changes)
    steps = [one.step for one in found(rig.disk) if one.file == "checkpoint"]

    assert Step.RESET_CHECKPOINT in steps


def test_zeros_of_a_checkpoint_are_worth_knowing() -> None:
    """The next start reads everything, which takes time and harms nothing."""
    rig = Rig()
    rig.stop()
    rig.set_checkpoint(0, 0)

    assert ("checkpoint", Severity.NOTE, Step.NOTHING) in told(found(rig.disk))


def test_files_of_others_are_told_and_left() -> None:
    """A lost name of ours, an operator's own, or a wheel that was being written."""
    disk = stopped()
    for name in ("timerwheel.tmp", "notes.txt"):
        put(disk, name, b"x")

    assert told(found(disk)) == [
        ("notes.txt", Severity.NOTE, Step.NOTHING),
        ("timerwheel.tmp", Severity.NOTE, Step.NOTHING),
    ]


def test_the_problem_of_a_table_names_its_place() -> None:
    """A backup is not looked at, whatever it says."""
    disk = MemoryDisk()
    path = f"{ROOT}/config/topics.json"
    missing = table_problem(disk, path)
    put(disk, "config/topics.json", b"{}  \xff")
    put(disk, "config/topics.json.bak", b"{}")
    broken = table_problem(disk, path)

    assert missing is not None
    assert broken is not None
    assert (missing.found, broken.offset, broken.expected) == ("no file", 4, "UTF-8")
    with pytest.raises(StoreFormatError):
        read_table(disk, path)
