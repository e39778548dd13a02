"""Units of queues, compared with the records that they show, and put right where they differ.

A unit is derived: the record says what it is. A record whose place another one has, or whose queue
shows it under another number, says nothing (``queue_check``).
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from .commit_log import CommitLog
from .consume_queue import ConsumeQueue
from .delay_levels import SCHEDULE_TOPIC
from .disk import is_for_a_while
from .log_reading import LogReading
from .log_record import read_log_record
from .queue_check import TAGS_CODE_AT, is_shown_elsewhere, shows_record
from .queue_unit import UNIT
from .redispatch import queue_unit
from .store_files import StoreFiles
from .unit_blocks import UnitBlocks

UNIT_COUNT = 32
"""Units of a queue that are read together: neighbouring records are of many queues."""

log = structlog.get_logger("timermq.timerstore.unit_scrub")


class UnitScrub:
    """The units of some neighbouring records.

    Args:
        store: Its parts, recovered.
    """

    def __init__(self, store: StoreFiles) -> None:
        self.damaged = 0
        self.repaired = 0
        self._store = store
        self._levels_ms = store.options.delay_levels_ms
        self._blocks = UnitBlocks(UNIT_COUNT)

    @property
    def size(self) -> int:
        """Bytes of queues that were read."""
        return self._blocks.size

    def look(self, phy_offset: int, data: bytes) -> None:
        """Compare the unit of a record that is as it was written.

        Raises:
            OSError: The disk did not take the unit, or no file can be opened now.
        """
        record = read_log_record(data)
        if not record.is_queued:
            return
        topic, offset = record.topic.decode("utf-8", "replace"), record.queue_offset
        queue = self._store.queues.get(topic, record.queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return
        unit = queue_unit(record, topic, phy_offset, len(data), self._levels_ms)
        try:
            found = self._blocks.packed(queue, offset)
        except OSError as error:
            if is_for_a_while(error):
                raise
            self.damaged += 1
            log.error("cannot be read", path=queue.directory, error=str(error))
            return
        if topic == SCHEDULE_TOPIC:
            # A moment of a classic level stays what it was, whatever the level is by now.
            unit = unit[:TAGS_CODE_AT] + found[TAGS_CODE_AT:]
        if unit != found and not self._store.register.is_deleted(topic, phy_offset):
            self._repair(queue, offset, phy_offset, unit)

    def _repair(self, queue: ConsumeQueue, offset: int, phy_offset: int, unit: bytes) -> None:
        if is_shown_elsewhere(self._store.log, queue, offset, phy_offset):
            return
        self.damaged += 1
        queue.put_right(offset, unit)
        self.repaired += 1
        at = offset * UNIT.size
        log.warning("damaged unit put right", path=queue.directory, offset=at, queue_offset=offset)


def put_right_around(store: StoreFiles, queue: ConsumeQueue, offset: int) -> bool:
    """Compare a unit that leads to no record of its place, and bad ones beside it, with the log.

    The log is read between the records of the next sound units (blocking), unless it is a record
    that is damaged, and not its unit.

    Args:
        store: Its parts, recovered.
        queue: The queue.
        offset: Queue offset of the unit.

    Returns:
        Whether units were put right.

    Raises:
        OSError: The disk did not take a unit, or no file can be opened now.
    """
    commit_log = store.log
    for phy_offset, size, _ in queue.units(offset, 1).tolist():
        if not commit_log.old.compare(phy_offset, phy_offset + size):
            return False
    units = UnitScrub(store)
    first = _sound_place(commit_log, queue, range(offset, queue.min_offset - 1, -1))
    end = _sound_place(commit_log, queue, range(offset, queue.max_offset))
    if first is None:
        first = commit_log.min_offset
    for phy_offset, data in LogReading(commit_log, first, end=end, purpose="units of a queue"):
        if commit_log.old.compare(phy_offset, phy_offset + len(data)):
            units.look(phy_offset, data)
    return units.repaired > 0


def _sound_place(log: CommitLog, queue: ConsumeQueue, offsets: Iterable[int]) -> int | None:
    """Position of the record of the first of some units that shows one; None without any."""
    for offset in offsets:
        if shows_record(log, queue, offset):
            return int(queue.units(offset, 1)["phy_offset"][0])
    return None
