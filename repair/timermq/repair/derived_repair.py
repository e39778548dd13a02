"""Queues and index made again from the commit log, which is whole by then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.disk import Disk
from timermq.timerstore.dispatch import unit_tags_code
from timermq.timerstore.index_follower import IndexFollower
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.store_options import StoreOptions

from .backup import Backup
from .log_check import QueueKey
from .queue_units import queue_directory

GATHER_COUNT = 4096
"""Units gathered before they are written."""


@attrs.define(eq=False)
class _Gathered:
    """Neighbouring units of one queue."""

    first_offset: int
    units: list[bytes]
    end: int


@attrs.frozen(eq=False, kw_only=True)
class DerivedRepair:
    """Makes again what the log tells."""

    disk: Disk
    root: str
    options: StoreOptions
    backup: Backup
    log_end: int
    register: QueueRegister

    def open_log(self) -> CommitLog:
        """The log up to its end, to be read."""
        size = self.options.mapped_file_size_commit_log
        log = CommitLog(self.disk, f"{self.root}/commitlog", size, read_only=True)
        log.load()
        log.set_end(self.log_end)
        return log

    # -- queues -----------------------------------------------------------------------------------

    async def rebuild_queues(
        self,
        keys: Collection[QueueKey],
        begins: Mapping[QueueKey, int],
        first: Mapping[QueueKey, int],
        ends: Mapping[QueueKey, int],
    ) -> None:
        """Make queues again; their files are moved to the backup before.

        Args:
            keys: The queues; those that ``begins`` does not have have no messages any more.
            begins: Position of the record that a queue begins with.
            first: Least queue offset of queues that begin behind a gap.
            ends: Next queue offset of these queues; those without records go on there.

        Raises:
            OSError: The disk refused; a repair can be run again.
        """
        # Where a queue without records begins with a new file, nothing else tells its end.
        self.register.note_ends(ends)
        for key in keys:
            directory = queue_directory(*key)
            for name in self.disk.list_dir(f"{self.root}/{directory}"):
                self.backup.move(f"{directory}/{name}")
        queues = ConsumeQueueTable(
            self.disk,
            self.root,
            segment_size=self.options.mapped_file_size_consume_queue,
            read_only=False,
        )
        log = self.open_log()
        wanted = {key: begins[key] for key in keys if key in begins}
        try:
            if wanted:
                self._fill_queues(log, queues, wanted, first)
            for key in keys:
                if key in ends and (queue := queues.find_or_create(*key)).is_empty:
                    queue.begin_at(ends[key])
                    queues.mark_dirty(queue)
            await queues.flush()
        finally:
            queues.close()
            log.close()

    def _fill_queues(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        wanted: Mapping[QueueKey, int],
        first: Mapping[QueueKey, int],
    ) -> None:
        gathered: dict[ConsumeQueue, _Gathered] = {}
        count = 0
        for position, size in log.walk(min(wanted.values())):
            record = read_log_record(log.read(position, size))
            topic = record.topic.decode("utf-8", "replace")
            key = (topic, record.queue_id)
            is_mine = record.is_queued and position >= wanted.get(key, self.log_end)
            if not is_mine or self.register.is_deleted(topic, position):
                continue
            queue = queues.find_or_create(*key)
            units = gathered.get(queue)
            offset = record.queue_offset
            expected = queue.max_offset if units is None else units.first_offset + len(units.units)
            is_first = units is None and queue.is_empty
            if offset < first.get(key, 0) or (offset != expected and not is_first):
                continue
            code = unit_tags_code(
                record.properties,
                topic == SCHEDULE_TOPIC,
                record.store_ms,
                self.options.delay_levels_ms,
            )
            if units is None:
                units = gathered[queue] = _Gathered(offset, [], 0)
            units.units.append(UNIT.pack(position, size, code))
            units.end = position + size
            count += 1
            if count % GATHER_COUNT == 0:
                _write(queues, gathered)
        _write(queues, gathered)

    # -- index ------------------------------------------------------------------------------------

    async def rebuild_index(self, now_ms: Callable[[], int]) -> None:
        """Make the index again; its files are moved to the backup before.

        Raises:
            OSError: The disk refused; a repair can be run again.
        """
        for name in self.disk.list_dir(f"{self.root}/index"):
            self.backup.move(f"index/{name}")
        log = self.open_log()
        try:
            index = IndexFollower.open(
                self.disk, self.root, log, self.options, now_ms=now_ms, read_only=False
            )
            try:
                index.catch_up()
                await index.flush()
            finally:
                index.close()
        finally:
            log.close()

    # -- register ---------------------------------------------------------------------------------

    def write_register(self, log_start: int, ends: Mapping[QueueKey, int]) -> None:
        """Write what log and queues hold now.

        Args:
            log_start: Position of the first record.
            ends: Next queue offset of queues, those without files too.
        """
        queues = ConsumeQueueTable(
            self.disk,
            self.root,
            segment_size=self.options.mapped_file_size_consume_queue,
            read_only=True,
        )
        try:
            queues.recover()
            # Of a queue whose last file a power cut took, nothing else tells the end.
            noted = {
                (topic, queue_id): end
                for topic, queue_id, end in self.register.queues()
                if (queue := queues.get(topic, queue_id)) is None
                or (queue.is_empty and queue.max_offset < end)
            }
            if self.register.log_end > self.log_end:
                noted.clear()  # a part of the log is lost, and the ends of queues with it
            # In one save: a process that ends between two would leave the files alone to tell.
            self.register.save(
                queues, log_start=log_start, log_end=self.log_end, ends=noted | dict(ends)
            )
        finally:
            queues.close()


def _write(queues: ConsumeQueueTable, gathered: dict[ConsumeQueue, _Gathered]) -> None:
    for queue, units in gathered.items():
        queue.append(units.first_offset, b"".join(units.units), units.end)
        queues.mark_dirty(queue)
    gathered.clear()
