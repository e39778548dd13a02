"""Tables and small files put right: the original goes to the backup first."""

from __future__ import annotations

import json
from typing import Any

from small_store import ROOT
from timermq.repair.backup import Backup
from timermq.repair.finding import Finding, Step
from timermq.repair.store_rule import StoreRule
from timermq.repair.table_check import OffsetClamp
from timermq.repair.table_repair import TableRepair
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_checkpoint import PAGE_SIZE
from unit.repair.small_checks import content, put

TOPICS = "config/topics.json"
OFFSETS = "config/consumerOffset.json"


def repaired(disk: MemoryDisk, step: Step, subject: object) -> Backup:
    """Do one step; the backup of it."""
    backup = Backup(disk, ROOT, 0)
    finding = Finding(
        rule=StoreRule.UNUSUAL, file="", offset=0, expected="", found="", step=step, subject=subject
    )
    TableRepair(disk, ROOT, backup).run([finding])
    return backup


def parsed(disk: MemoryDisk, path: str) -> object:
    """A table as JSON reads it."""
    return json.loads(content(disk, path))


def test_a_table_is_restored_from_its_backup() -> None:
    """The damaged one is kept; the ``.bak`` stays as well."""
    disk = MemoryDisk()
    put(disk, TOPICS, b"{")
    put(disk, f"{TOPICS}.bak", b'{"a":1}')
    backup = repaired(disk, Step.RESTORE_TABLE, TOPICS)

    assert parsed(disk, TOPICS) == {"a": 1}
    assert content(disk, f"{backup.directory}/{TOPICS}") == b"{"


def test_without_a_good_backup_there_is_no_table() -> None:
    """Both go: the next start makes an empty one, and would else stop at the damaged one."""
    disk = MemoryDisk()
    put(disk, TOPICS, b"{")
    put(disk, f"{TOPICS}.bak", b"[")
    backup = repaired(disk, Step.RESTORE_TABLE, TOPICS)

    assert backup.kept == [TOPICS, f"{TOPICS}.bak"]
    assert disk.list_dir(f"{ROOT}/config") == []


def test_an_offset_is_clamped_and_its_neighbours_stay() -> None:
    """Of a group by its row; the keys of fastjson are numbers or texts."""
    disk = MemoryDisk()
    put(disk, OFFSETS, b'{"offsetTable":{"T@G":{0:99,1:7},"T@H":{0:99}}}')
    backup = repaired(disk, Step.CLAMP_OFFSET, OffsetClamp("consumerOffset.json", "T@G", 0, 12))
    text = content(disk, OFFSETS)

    assert b"0:12" in text.replace(b'"0"', b"0")
    assert text.count(b"99") == 1
    assert b":7" in text
    assert backup.kept == [OFFSETS]


def test_an_offset_of_a_level_has_no_row() -> None:
    """The table of levels has them at its top."""
    disk = MemoryDisk()
    put(disk, "config/delayOffset.json", b'{"offsetTable":{3:99,4:5}}')
    repaired(disk, Step.CLAMP_OFFSET, OffsetClamp("delayOffset.json", "", 3, 0))
    text = content(disk, "config/delayOffset.json").replace(b'"', b"")

    assert b"3:0" in text
    assert b"4:5" in text


def test_a_topic_is_added_with_all_its_queues() -> None:
    """To a table of others, and to one that is empty."""
    tables: list[dict[str, Any]] = [
        {},
        {"topicConfigTable": {"U": {"perm": 4}}, "dataVersion": {"counter": 7}},
    ]
    for before in tables:
        disk = MemoryDisk()
        put(disk, TOPICS, json.dumps(before).encode())
        repaired(disk, Step.ADD_TOPIC, ("T", 3))
        table = json.loads(content(disk, TOPICS))
        topic = table["topicConfigTable"]["T"]

        assert (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"]) == (3, 3, 6)
        assert set(table["topicConfigTable"]) == {"T", *before.get("topicConfigTable", {})}
        assert table["dataVersion"]["counter"] == (7 if before else 0)


def test_a_reset_checkpoint_says_nothing() -> None:
    """A page of zeros, durable: the next start reads everything."""
    disk = MemoryDisk()
    put(disk, "checkpoint", b"damaged")
    backup = repaired(disk, Step.RESET_CHECKPOINT, "checkpoint")
    disk.power_cut()

    assert content(disk, "checkpoint") == bytes(PAGE_SIZE)
    assert backup.kept == ["checkpoint"]


def test_steps_for_others_are_left_to_them() -> None:
    """The timer checkpoint has a repair of its own, and a note has none."""
    disk = MemoryDisk()
    put(disk, "config/timercheck", b"x")
    for step, subject in (
        (Step.RESET_CHECKPOINT, "config/timercheck"),
        (Step.NOTHING, None),
        (Step.REBUILD_QUEUE, ("T", 0)),
    ):
        assert repaired(disk, step, subject).kept == []
    assert content(disk, "config/timercheck") == b"x"


def test_a_file_that_does_not_belong_is_moved() -> None:
    """An operator finds it under its old path in the backup."""
    disk = MemoryDisk()
    put(disk, "commitlog/odd", b"x")

    assert repaired(disk, Step.BACK_UP_FILE, "commitlog/odd").kept == ["commitlog/odd"]
    assert disk.list_dir(f"{ROOT}/commitlog") == []
