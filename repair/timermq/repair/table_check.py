"""The small files: tables under ``config/``, the store's checkpoint, and what does not belong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import attrs

from timermq.pipeline.recovery.timer_engine import TIMELINE_DIRECTORY
from timermq.timerstore.boot_note import NAME as BOOT
from timermq.timerstore.config_file import backup_path, load_json, parse_json
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.seal_reader import DIRECTORY as SEALS
from timermq.timerstore.store_checkpoint import PAGE, PAGE_SIZE, StoreCheckpoint
from timermq.timerstore.store_files import BACKUP_DIRECTORY
from timermq.wheel.wheel_snapshots import snapshot_names

from .finding import Finding, Findings, Step
from .log_check import LogCheck
from .segment_row import size_of
from .store_rule import Severity, StoreRule

TABLES = (
    "consumerFilter.json",
    "consumerOffset.json",
    "consumeQueues.json",
    "delayOffset.json",
    "queueLocks.json",
    "subscriptionGroup.json",
    "timermetrics",
    "topics.json",
)
"""Tables that this program reads."""

BROKER_TABLES = ("consumerOffset.json", "subscriptionGroup.json", "topics.json", "topics.json.bak")
"""Tables that a broker makes."""

DERIVED_TABLES = ("consumeQueues.json", "queueLocks.json", "timermetrics")
"""Tables that are made again when they are lost; locks are for a minute."""

KNOWN_NAMES = frozenset(
    (
        *("abort", "abort.bak", "checkpoint", "commitlog", "compaction", "config", "consumequeue"),
        *("index", "lock", "timerlog", "timerwheel", "timerwheel.tmp", "quarantine"),
        *(BACKUP_DIRECTORY, SEALS, BOOT, TIMELINE_DIRECTORY),
    )
)

SYSTEM_TOPICS = ("rmq_sys_", "RMQ_SYS_", SCHEDULE_TOPIC, "%RETRY%", "%DLQ%", "TRANS_CHECK_MAX")
"""The prefixes of topics that a broker makes by itself."""


@attrs.frozen
class OffsetClamp:
    """An offset in a table that lies behind the end of its queue."""

    table: str
    group: str
    """Key of the row: ``topic@group``; empty in delayOffset.json, whose rows are levels."""
    queue_id: int
    """Queue, or level."""
    end: int


@attrs.frozen(eq=False)
class TableCheck:
    """Looks at the small files, when the log is known."""

    disk: Disk
    root: str
    log: LogCheck

    def find(self) -> Findings:
        """Everything that is wrong with the small files."""
        yield from self._find_tables()
        yield from self._find_offsets()
        yield from self._find_delay_offsets()
        yield from self._find_topics()
        yield from self._find_checkpoint()
        yield from self._find_others()

    # -- tables -----------------------------------------------------------------------------------

    def _find_tables(self) -> Findings:
        for name in TABLES:
            path = f"config/{name}"
            backup = backup_path(path)
            problem = table_problem(self.disk, f"{self.root}/{path}")
            backup_problem = table_problem(self.disk, f"{self.root}/{backup}")
            has_backup = backup_problem is None
            if backup_problem is not None and backup_problem.found != _NO_FILE:
                yield Finding(
                    rule=StoreRule.TABLE_UNREADABLE,
                    file=backup,
                    offset=backup_problem.offset,
                    expected=backup_problem.expected,
                    found=backup_problem.found,
                    step=Step.BACK_UP_FILE,
                    subject=backup,
                )
            if problem is None or (problem.found == _NO_FILE and not has_backup):
                continue
            is_lost = not has_backup and name not in DERIVED_TABLES
            # Between two renames of a table there is no file: a kill may leave it so.
            is_cut_off = problem.found == _NO_FILE and not self.log.last_exit_ok
            yield Finding(
                rule=StoreRule.TABLE_UNREADABLE,
                file=path,
                offset=problem.offset,
                expected=problem.expected,
                found=f"{problem.found}; {'its .bak can be read' if has_backup else 'no .bak'}",
                severity=Severity.NOTE
                if is_cut_off
                else Severity.LOST
                if is_lost
                else Severity.DERIVED,
                step=Step.NOTHING if is_cut_off else Step.RESTORE_TABLE,
                subject=path,
            )

    def _table(self, name: str) -> Mapping[str, object]:
        try:
            found = load_json(self.disk, f"{self.root}/config/{name}")
        except StoreFormatError:
            return {}
        return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}

    def _find_offsets(self) -> Findings:
        for row, offsets in _objects(self._table("consumerOffset.json").get("offsetTable")):
            topic = row.partition("@")[0]
            for queue_id, offset in _integers(offsets):
                yield from self._find_beyond("consumerOffset.json", row, queue_id, offset, topic)

    def _find_delay_offsets(self) -> Findings:
        for level, offset in _integers(self._table("delayOffset.json").get("offsetTable")):
            yield from self._find_beyond("delayOffset.json", "", level, offset, SCHEDULE_TOPIC)

    def _find_beyond(self, table: str, row: str, number: int, offset: int, topic: str) -> Findings:
        """An offset behind the end of its queue: what comes next would never be consumed."""
        queue_id = number if row else number - 1
        end = self.log.next_offset(topic, queue_id)
        if offset > end or offset < 0:
            yield Finding(
                rule=StoreRule.OFFSET_BEHIND_END,
                file=f"config/{table}",
                offset=0,
                expected=f"at most {end} for {row or 'level'} {number}, the end of its queue",
                found=str(offset),
                step=Step.CLAMP_OFFSET,
                subject=OffsetClamp(table, row, number, end),
            )

    def _find_topics(self) -> Findings:
        """Topics with messages that the table of topics does not have."""
        directory = f"{self.root}/config"
        if not any(self.disk.exists(f"{directory}/{name}") for name in BROKER_TABLES):
            return  # a store that no broker has served: it has no tables to miss anything
        topics = {name for name, _ in _objects(self._table("topics.json").get("topicConfigTable"))}
        counts: dict[str, int] = {}
        for topic, queue_id in self.log.begins:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            if topic not in topics and not topic.startswith(SYSTEM_TOPICS):
                yield Finding(
                    rule=StoreRule.TOPIC_UNKNOWN,
                    file="config/topics.json",
                    offset=0,
                    expected=f"topic {topic}, which has messages in {count} queues",
                    found="none",
                    step=Step.ADD_TOPIC,
                    subject=(topic, count),
                )

    # -- checkpoint and what does not belong ------------------------------------------------------

    def _find_checkpoint(self) -> Findings:
        path = f"{self.root}/checkpoint"
        size = size_of(self.disk, path)
        if not size and not self.log.record_count:
            return
        if size != PAGE_SIZE:
            yield _checkpoint_finding(size, f"a page of {PAGE_SIZE} bytes", f"{size} bytes")
            return
        page = StoreCheckpoint.open(self.disk, path, read_only=True)
        if self.log.record_count and not page.physic_msg_timestamp:
            yield _note("checkpoint", "store times", "zeros: the next start reads everything")
        for name in ("physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"):
            stated = cast("int", getattr(page, name))
            if not 0 <= stated <= self.log.last_store_ms:
                yield _checkpoint_finding(
                    PAGE.offset_of(name),
                    f"{name} of at most {self.log.last_store_ms}, that of the last record",
                    str(stated),
                )
        if page.durable_py is not None and page.durable_py > self.log.end:
            expected = f"durable_py of at most {self.log.end}, where the log ends"
            yield _checkpoint_finding(64, expected, str(page.durable_py))

    def _find_others(self) -> Findings:
        if not self.log.last_exit_ok:
            yield _note(
                "abort", "no such file", "the last run was cut off: the next start recovers"
            )
        known = KNOWN_NAMES | set(snapshot_names(self.disk, self.root))
        for name in self.disk.list_dir(self.root):
            if name not in known:
                yield _note(name, "files of a store", "one of somebody else")
        if self.disk.exists(f"{self.root}/timerwheel.tmp"):
            yield _note("timerwheel.tmp", "no such file", "a wheel that was being written")


_NO_FILE = "no file"


def table_problem(disk: Disk, path: str) -> StoreFormatError | None:
    """Why one file of a table cannot be read; None when it can."""
    if not disk.exists(path):
        return StoreFormatError(path, 0, "a table", _NO_FILE)
    if not size_of(disk, path):
        return StoreFormatError(path, 0, "a table", "an empty file")
    try:
        read_table(disk, path)
    except StoreFormatError as error:
        return error
    return None


def read_table(disk: Disk, path: str) -> object:
    """The content of one file of a table, whatever its backup does.

    Raises:
        StoreFormatError: It cannot be read.
    """
    file = disk.open(path, read_only=True)
    try:
        text = file.read(0, file.size()).decode()
    except UnicodeDecodeError as error:
        raise StoreFormatError(path, error.start, "UTF-8", error.reason) from error
    finally:
        file.close()
    return parse_json(text, path)


def _objects(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(key), one) for key, one in cast("dict[object, object]", value).items())


def _integers(value: object) -> Iterator[tuple[int, int]]:
    for key, one in _objects(value):
        if key.lstrip("-").isdigit() and isinstance(one, int):
            yield int(key), one


def _checkpoint_finding(offset: int, expected: str, found: str) -> Finding:
    return Finding(
        rule=StoreRule.CHECKPOINT_WRONG,
        file="checkpoint",
        offset=offset,
        expected=expected,
        found=found,
        step=Step.RESET_CHECKPOINT,
        subject="checkpoint",
    )


def _note(file: str, expected: str, found: str) -> Finding:
    return Finding(
        rule=StoreRule.UNUSUAL,
        file=file,
        offset=0,
        expected=expected,
        found=found,
        severity=Severity.NOTE,
        step=Step.NOTHING,
    )
