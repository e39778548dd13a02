"""What was done of the classic levels beyond the offsets that ``config/delayOffset.json`` knows.

The file is up to ten seconds old. What happened since stands in the commit log: records that name
their origin are ours, and RocketMQ's deliveries are known by name (``level_record``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message_store import MessageStore

from ..records.deduplication import AlreadyDone, contains, origin_in
from ..records.doubts import doubts_of, origins_in
from ..recovery.timer_recovery import segment_stored_before
from .level_queues import Entries, LevelQueues
from .level_record import delivered_name, waiting_name

SCAN_COUNT = 1000
"""Records of the log read between two turns of everything else."""


def has_begun(known: DelayOffsets | None) -> bool:
    """Whether a take-over may have moved messages: it writes the file before it does."""
    return known is None or known.scan_py is not None


def scan_start(store: MessageStore, queues: LevelQueues, known: DelayOffsets | None) -> int:
    """The position of the log before which nothing was done beyond the offsets.

    Args:
        store: Opened and recovered.
        queues: As the file says.
        known: The file; None where there is none.
    """
    heads, commit_log = queues.heads(), store.commit_log
    if not len(heads):
        return commit_log.max_offset
    if known is None:
        return int(heads["offset_py"].min())
    if known.scan_py is not None:
        return max(known.scan_py, commit_log.min_offset)
    first_ms = int(heads["moment_ms"].min())
    if first_ms > store.last_store_ms:
        return commit_log.max_offset
    return segment_stored_before(store, first_ms)


@attrs.define(eq=False)
class LevelDone:
    """What was done of one store; nothing is known until ``look`` has ended.

    Args:
        has_begun: A take-over may have moved messages, at any time; else RocketMQ alone delivered
            them, at their moments.
    """

    has_begun: bool
    _origins: NDArray[np.int64] = attrs.field(factory=lambda: np.empty(0, np.int64), init=False)
    """Sorted positions of records that were moved to the wheel or set aside."""
    _in_doubt: AlreadyDone = attrs.field(factory=AlreadyDone, init=False)
    """Damaged places of the log."""
    _delivered: dict[bytes, int] = attrs.field(factory=dict[bytes, int], init=False)
    """RocketMQ's deliveries by name, with how many of each have not answered for a message yet."""

    def look(self, store: MessageStore, start: int, end: int) -> Iterator[None]:
        """Read what stands from one position of the log to another; yields between pieces of it."""
        origins, commit_log = array("q"), store.commit_log
        reading = LogReading(commit_log, start, end=end, purpose="what was done of levels")
        for number, (_, record) in enumerate(reading, 1):
            if number % SCAN_COUNT == 0:
                yield
            origin = origin_in(record)
            name = delivered_name(record) if origin is None else None
            if origin is not None:
                origins.append(origin)
            elif name is not None:
                self._delivered[name] = self._delivered.get(name, 0) + 1
        origins.extend(origins_in(commit_log, reading.holes))
        self._origins = np.unique(np.frombuffer(origins, np.int64))
        doubts = doubts_of(store, reading.holes, is_javas=True)
        self._in_doubt = AlreadyDone(doubts=doubts)

    def were_moved(self, entries: Entries) -> list[bool]:
        """Which entries have gone to the wheel, or were set aside."""
        found: list[bool] = contains(self._origins, entries["offset_py"]).tolist()
        return found

    def check_doubts(self, offset_py: int, moment_ms: int, topic: str) -> None:
        """Refuse a message that a damaged record of the log may have moved or delivered.

        Args:
            offset_py: Where it waits.
            moment_ms: When it is due by its level.
            topic: Where it goes.

        Raises:
            TimerRecordError: It may; where.
        """
        self._in_doubt.check_doubts(offset_py, 0 if self.has_begun else moment_ms, topic)

    def was_delivered(self, record: bytes) -> bool:
        """Whether RocketMQ delivered it; each of its deliveries answers for one message."""
        if not self._delivered:
            return False
        name = waiting_name(record)
        count = self._delivered.get(name, 0)
        if count:
            self._delivered[name] = count - 1
        return count > 0
