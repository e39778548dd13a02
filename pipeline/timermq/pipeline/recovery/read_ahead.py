"""A follower reads ahead what the copied log shows as delivered, so that it can lead soon.

What the slots tell that its master has delivered moves the begin of this reading (``CopiedSlots``);
but nothing moves while the master is idle, and then all that was copied would be read at the
promotion: a second for 30 MB. What the copy has read in columns is taken from there; all else is
read from the log.
"""

from __future__ import annotations

import attrs
import trio

from timermq.timerstore.message_store import MessageStore

from .done_reading import DoneReading
from .timer_files import TimerFiles

STEP_COUNT = 1_024
"""Records that are read between two turns of other tasks: a millisecond, of odd ones some."""
LEFT_SIZE_MAX = 1 << 20
"""Bytes that a promotion has left to read."""
FORGET_SIZE = 64 << 20
"""Bytes of the log behind which what was read of them is forgotten, when it is not needed."""
PAUSE_S = 0.02
IDLE_PAUSE_S = 0.2


@attrs.define(eq=False)
class ReadAhead:
    """The reading of one parked service.

    Args:
        store: To which the log is copied.
        files: Their checkpoint says from where on recovery reads.
    """

    store: MessageStore
    files: TimerFiles
    looked_py: int = attrs.field(default=0, init=False)
    """How far it was looked for what of all this still waits in the wheel (``CopiedSlots``) …"""
    looked_ms: int = attrs.field(default=0, init=False)
    """… and from which slot on."""
    _reading: DoneReading | None = attrs.field(default=None, init=False)

    def taken(self) -> DoneReading | None:
        """What was read, for a recovery; None without any. The next one begins again."""
        reading, self._reading = self._reading, None
        self.looked_py = self.looked_ms = 0
        return reading

    def caught_up(self) -> DoneReading | None:
        """The reading up to the end of the log; None when that is too much for one turn."""
        reading = self._current()
        if self.store.commit_log.max_offset - reading.end > 2 * LEFT_SIZE_MAX:
            return None
        reading.read()
        return reading

    async def run(self) -> None:
        """Read on as the log grows, until cancelled."""
        self.store.log_copy.on_run = lambda run: self._current().take_run(run)
        try:
            await self._read_on()
        finally:
            self.store.log_copy.on_run = None

    async def _read_on(self) -> None:
        log, seen_end = self.store.commit_log, -1
        while True:
            reading = self._current()
            if log.max_offset - reading.end <= LEFT_SIZE_MAX:
                await trio.sleep(IDLE_PAUSE_S)
                continue
            reading.read(STEP_COUNT)
            # What is being copied comes first.
            is_growing, seen_end = log.max_offset != seen_end, log.max_offset
            await trio.sleep(PAUSE_S if is_growing else 0)

    def _current(self) -> DoneReading:
        """The reading, which begins where a recovery would, or before."""
        extension = self.files.checkpoint.extension
        scan_py = 0 if extension is None else extension.scan_py
        scan_py = max(scan_py, self.store.commit_log.min_offset)
        reading = self._reading
        if reading is None or reading.end < scan_py:
            reading = self._reading = DoneReading(self.store, scan_py)
        elif scan_py - reading.first > FORGET_SIZE:
            reading.forget(scan_py)
        return reading
