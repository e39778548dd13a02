"""The slow scrub: the task that compares the store's bytes at rest, within a budget of the disk.

A pass begins a week after the last one began (``scrub_interval_hours``) and reads so many bytes a
second (``scrub_bytes_per_second``), whatever the hour: at that rate a large store takes longer than
a night, and what makes it harmless is the rate. Between two pieces the next one is announced, so
that it is in memory when its turn comes, and everything else goes on. While the commit log grows
fast, by sends or by a slot that opens, a piece a second is read.

HDFS scans its blocks in three weeks at a mebibyte a second, with a cursor that outlasts a restart;
Ceph scrubs deeply once a week, ZFS's users once a month, both at the lowest priority.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from timermq.timerlog import TimerLog
from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.log_scrub import LogScrub
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.scrub import Scrub, ScrubStatistics
from timermq.timerstore.scrub_note import ScrubNote
from timermq.timerstore.seal_scrub import PIECE_SIZE
from timermq.timerstore.table_scrub import TableScrub

from .clock.clock import Clock

REST_S = 10.0
"""Behind a start, which has enough to do, and when the disk refuses for a while."""
CHANGES_WITHIN_S = 300.0
"""At most until a changed setting, or clock, is followed."""
NOTED_SIZE = 64 << 20
"""Bytes that are read between two notes of how far it is: some of them are read again."""
BUSY_SHARE = 8
"""The store is busy while its log grows by more than this share of the rate, an eighth."""
BUSY_REST_S = 1.0
"""Between two pieces while the store is busy: no pass stands still."""
HOUR_MS = 3_600_000

log = structlog.get_logger("timermq.pipeline.store_scrub")


class StoreScrub:
    """The scrub of one store.

    Args:
        store: Opened and recovered.
        timer_log: Its timer log.
        clock: The wall clock.
        on_damaged_units: Called when no seal puts units of the timer log right.
    """

    def __init__(
        self,
        store: MessageStore,
        timer_log: TimerLog,
        clock: Clock,
        on_damaged_units: Callable[[], None],
    ) -> None:
        self._store = store
        self._timer_log = timer_log
        self._on_damaged_units = on_damaged_units
        self._clock = clock
        self.tables = TableScrub(store.disk, store.root)
        """Who owns tables is added here, and writes them again."""
        parts = (LogScrub(store.files), timer_log.scrub, self.tables)
        self._scrub = Scrub(parts, ScrubNote.load(store.disk, store.root))

    def statistics(self) -> ScrubStatistics:
        """A moment's picture; reads memory only."""
        return self._scrub.statistics()

    def note_put_back(self, *, is_told: bool) -> None:
        """A sector of the commit log was put back; ``is_told``: as damaged, by a scrub."""
        self._scrub.note_put_back(is_told=is_told)

    async def run(self) -> None:
        """Scrub for ever.

        Raises:
            StoreFailedError: The disk did not take what was put right.

        Cancellation: between two pieces, each of which is done or not begun; goes on there when it
        is run again.
        """
        await trio.sleep(REST_S)
        while True:
            if not self._scrub.is_under_way:
                await self._wait_until_due()
                self._scrub.begin(self._clock.now_ms())
            await self._pass()

    async def _wait_until_due(self) -> None:
        while True:
            left = self._left_s()
            if left <= 0:
                return
            await trio.sleep(min(left, CHANGES_WITHIN_S))

    def _left_s(self) -> float:
        """Seconds until the next pass."""
        options, now_ms = self._store.options, self._clock.now_ms()
        if not options.scrub_bytes_per_second:
            return CHANGES_WITHIN_S
        interval_ms = options.scrub_interval_hours * HOUR_MS
        # A pass that began in the future began before the clock was set back.
        begun_ms = min(self._scrub.note.begun_ms, now_ms)
        return (begun_ms + interval_ms - now_ms) / 1000 if begun_ms else 0.0

    async def _pass(self) -> None:
        """Look at what is left of a pass."""
        scrub, owed, unnoted = self._scrub, 0, NOTED_SIZE
        while scrub.is_under_way:
            rate = self._store.options.scrub_bytes_per_second
            if not rate:
                await trio.sleep(CHANGES_WITHIN_S)
                continue
            try:
                found = scrub.step(self._clock.now_ms())
                unnoted += found.size
                if unnoted >= NOTED_SIZE or not scrub.is_under_way:
                    scrub.note.save(self._store.disk, self._store.root)
                    unnoted = 0
            except OSError as error:
                if not is_for_a_while(error):
                    self._store.fail(error)
                await trio.sleep(REST_S)
                continue
            if self._timer_log.damaged:
                self._on_damaged_units()
            owed += found.size + found.work
            if owed < PIECE_SIZE and scrub.is_under_way:
                await trio.lowlevel.checkpoint()
                continue
            scrub.announce()
            await self._rest(owed, rate)
            owed = 0
        now = scrub.statistics()
        log.info("store scrubbed", damaged=now.damaged, repaired=now.repaired, left=now.left)

    async def _rest(self, owed: int, rate: int) -> None:
        """Sleep as long as the rate asks for what was read, longer while the store is busy."""
        log_end = self._store.commit_log.max_offset
        await trio.sleep(owed / rate)
        if (self._store.commit_log.max_offset - log_end) * BUSY_SHARE > owed:
            await trio.sleep(BUSY_REST_S)
