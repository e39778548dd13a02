"""How far the levels are through, kept in ``config/delayOffset.json`` while they are taken over.

The file is written behind what is synced: after every few thousand messages, every ten seconds as
RocketMQ does (``flushDelayOffsetInterval``), also while the store takes nothing, and at the stop.
So RocketMQ, given the store after a kill, repeats no more than what moved since, and loses nothing:
what stands in front of the offsets waits on its wheel.

What was done since the file was written stands in the commit log (``LevelDone``): records that name
their origin are ours, and RocketMQ's deliveries are known by name (``level_record``).

Source: Java ``ScheduleMessageService.persist``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import attrs
import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.config_file import DataVersion
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message_store import MessageStore

from ..clock.clock import Clock
from ..records.deduplication import AlreadyDone, contains, origin_in
from ..records.doubts import doubts_of, origins_in
from ..recovery.timer_recovery import segment_stored_before
from .level_queues import Entries, LevelQueues
from .level_record import born_ms_of, delivered_name, waiting_name

SAVE_INTERVAL_S = 10
"""Between two writings of the file, if anything has moved."""
SCAN_COUNT = 1000
"""Records of the log read between two turns of everything else."""

log = structlog.get_logger("timermq.pipeline.levels.level_offsets")


class LevelOffsets:
    """The file of one store.

    Args:
        store: Opened and recovered.
        queues: What has moved.
        version: Of the file as it was found.
        scan_py: What was done beyond the offsets stands in the log from this position on.
        clock: The wall clock, for the time in the file's version.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        queues: LevelQueues,
        version: DataVersion,
        scan_py: int,
        clock: Clock,
    ) -> None:
        self.is_saved = True
        """Whether the file says all that there is to say."""
        self._store = store
        self._queues = queues
        self._version = version
        self._scan_py = scan_py
        self._clock = clock
        self._is_full = False
        """The last try found no room: said once."""
        self._lock = trio.Lock()

    def changed(self) -> None:
        """Say that the file is to be written."""
        self.is_saved = False

    async def run(self) -> None:
        """Write by the clock until nothing is left, and the file says so.

        Raises:
            StoreFailedError: A sync failed.
            OSError: The disk failed.

        Cancellation: ``save`` has the rest.
        """
        while self._queues.left or not self.is_saved:
            await trio.sleep(SAVE_INTERVAL_S)
            await self.save()

    async def save(self) -> None:
        """Write the file, if anything has changed since, behind what it says.

        Without room the old file stays: it says less, and nothing wrong.

        Raises:
            StoreFailedError: A sync failed.
            OSError: The disk failed.

        Cancellation: the file is the old or the new one; the next call writes it again.
        """
        async with self._lock:
            if self.is_saved:
                return
            self.is_saved = True  # what moves from here on is for the next time
            try:
                await self._write()
            except BaseException as error:
                self.is_saved = False
                if not isinstance(error, OSError) or not is_for_a_while(error):
                    raise
                if not self._is_full:
                    log.warning(
                        "no room for the offsets of the levels, saved later", error=str(error)
                    )
                self._is_full = True
            else:
                self._is_full = False

    async def _write(self) -> None:
        self._version = attrs.evolve(
            self._version, counter=self._version.counter + 1, timestamp=self._clock.now_ms()
        )
        # Taken before the sync, which covers just this.
        reached = DelayOffsets(
            offsets=self._queues.offsets,
            scan_py=self._scan_py if self._queues.left else None,
            data_version=self._version,
        )
        await self._store.flush()
        await reached.save(self._store.disk, self._store.root)


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
    """The finished moves of one store; nothing is known until ``look`` has ended.

    Args:
        has_begun: A take-over may have moved messages, at any time; else RocketMQ alone delivered
            them, at their moments.
    """

    has_begun: bool
    _origins: NDArray[np.int64] = attrs.field(factory=lambda: np.empty(0, np.int64), init=False)
    """Sorted positions of records that were moved to the wheel or quarantined."""
    _in_doubt: AlreadyDone = attrs.field(factory=AlreadyDone, init=False)
    """Damaged places of the log."""
    _delivered: dict[bytes, int] = attrs.field(factory=dict[bytes, int], init=False)
    """RocketMQ's deliveries by name, with how many of each have not answered for a message yet."""
    _born_ms: set[int] = attrs.field(factory=set[int], init=False)
    """The born times in these names."""

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
                self._born_ms.add(born_ms_of(record))
        origins.extend(origins_in(commit_log, reading.holes))
        self._origins = np.unique(np.frombuffer(origins, np.int64))
        doubts = doubts_of(store, reading.holes, is_javas=True)
        self._in_doubt = AlreadyDone(doubts=doubts)

    @property
    def leaves_doubts(self) -> bool:
        """Whether there are damaged places that may have moved or delivered something."""
        return bool(self._in_doubt.doubts)

    @property
    def born_ms(self) -> Int64s:
        """The born times of what RocketMQ delivered: a message with another one was not."""
        return np.array(sorted(self._born_ms), np.int64)

    def were_moved(self, entries: Entries) -> Flags:
        """Which entries have gone to the wheel, or were quarantined."""
        return contains(self._origins, entries["offset_py"])

    def check_doubts(self, offset_py: int, moment_ms: int, topic: str) -> None:
        """Refuse a message that a damaged record of the log may have moved or delivered.

        Args:
            offset_py: Where it waits.
            moment_ms: When it is due by its level.
            topic: Its topic.

        Raises:
            TimerRecordError: It may; where.
        """
        self._in_doubt.check_doubts(offset_py, 0 if self.has_begun else moment_ms, topic)

    def was_delivered(self, record: bytes) -> bool:
        """Whether RocketMQ delivered it; each of its deliveries answers for one message."""
        return bool(self._delivered) and self.answers_for(waiting_name(record))

    def answers_for(self, name: bytes) -> bool:
        """The same of a message by its name (``waiting_name``)."""
        count = self._delivered.get(name, 0)
        if count:
            self._delivered[name] = count - 1
        return count > 0
