"""Tables and small files put right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, cast

from timermq.timerstore.config_file import backup_path, fastjson, load_json, save_json_now
from timermq.timerstore.disk import Disk
from timermq.timerstore.store_checkpoint import StoreCheckpoint

from .backup import Backup
from .finding import Finding, Step
from .table_check import OffsetClamp, table_problem

PERM_READ_WRITE = 6


class TableRepair:
    """Repairs the small files of one store.

    Args:
        disk: Its disk.
        root: Its directory.
        backup: The backup of the originals.
    """

    def __init__(self, disk: Disk, root: str, backup: Backup) -> None:
        self._disk = disk
        self._root = root
        self._backup = backup

    def run(self, findings: Iterable[Finding]) -> None:
        """Do the steps that concern small files.

        Raises:
            OSError: The disk refused; a repair can be run again.
        """
        for finding in findings:
            subject = finding.subject
            match finding.step, subject:
                case Step.BACK_UP_FILE, str():
                    self._backup.move(subject)
                case Step.RESTORE_TABLE, str():
                    self._restore(subject)
                case Step.CLAMP_OFFSET, OffsetClamp():
                    self._clamp(subject)
                case Step.ADD_TOPIC, (str() as topic, int() as count):
                    self._change("topics.json", lambda table: _add_topic(table, topic, count))
                case Step.RESET_CHECKPOINT, "checkpoint":
                    self._backup.move("checkpoint")
                    # A page of zeros: nothing is known, the next start reads everything.
                    page = StoreCheckpoint.open(self._disk, f"{self._root}/checkpoint")
                    self._disk.sync_now(page.file)
                    page.close()
                    self._disk.sync_dir_now(self._root)
                case _:
                    pass

    def _restore(self, path: str) -> None:
        """Move a table into the backup; its ``.bak`` takes its place, if that can be read."""
        backup = backup_path(path)
        has_backup = table_problem(self._disk, f"{self._root}/{backup}") is None
        self._backup.move(path)
        if not has_backup:
            self._backup.move(backup)
            return
        with closing(self._disk.open(f"{self._root}/{backup}", read_only=True)) as source:
            text = source.read(0, source.size()).decode()
        save_json_now(self._disk, f"{self._root}/{path}", text)

    def _clamp(self, clamp: OffsetClamp) -> None:
        def change(table: dict[Any, Any]) -> None:
            offsets: dict[Any, Any] = table["offsetTable"]
            row: dict[Any, Any] = offsets[clamp.group] if clamp.group else offsets
            for key in row:
                if int(key) == clamp.queue_id:
                    row[key] = clamp.end

        self._change(clamp.table, change)

    def _change(self, name: str, change: Callable[[dict[Any, Any]], None]) -> None:
        """Replace a table by a changed one."""
        path = f"config/{name}"
        self._backup.copy(path)
        found = load_json(self._disk, f"{self._root}/{path}")
        table = _object(found)
        change(table)
        save_json_now(self._disk, f"{self._root}/{path}", fastjson(table))


def _add_topic(table: dict[Any, Any], topic: str, count: int) -> None:
    """Add a topic as a broker makes one, with all the queues that have messages."""
    topics = table.setdefault("topicConfigTable", {})
    topics[topic] = {
        "attributes": {},
        "order": False,
        "perm": PERM_READ_WRITE,
        "readQueueNums": count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": count,
    }
    table.setdefault("dataVersion", {"counter": 0, "stateVersion": 0, "timestamp": 0})


def _object(value: object) -> dict[object, Any]:
    return cast("dict[object, Any]", value) if isinstance(value, dict) else {}
