"""How far the levels are through, kept in ``config/delayOffset.json`` while they are taken over.

The file is written behind what is synced: after every few thousand messages, every ten seconds as
RocketMQ does (``flushDelayOffsetInterval``), also while the store takes nothing, and at the stop.
So RocketMQ, given the store after a kill, repeats no more than what moved since, and loses nothing:
what stands in front of the offsets waits on its wheel.

Source: Java ``ScheduleMessageService.persist``.
"""

from __future__ import annotations

import attrs
import structlog
import trio

from timermq.timerstore.config_file import DataVersion
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.message_store import MessageStore

from ..clock.clock import Clock
from .level_queues import LevelQueues

SAVE_INTERVAL_S = 10
"""Between two writings of the file, if anything has moved."""

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
