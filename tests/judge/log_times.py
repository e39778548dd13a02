"""When the records of a log were written, and so what a power cut must leave of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import attrs
import trio

from .mortal_disk import Written
from .reader import Log

UNSYNCED_SECONDS = 0.5
"""With ASYNC_FLUSH a power cut takes nothing that is older, but for the time that syncs take."""


@attrs.define(eq=False)
class LogTimes:
    """Of one log, through all lives."""

    written: dict[int, Written] = attrs.Factory(dict[int, Written])
    """Position of a record to the time of its writing."""
    lives: dict[int, float] = attrs.Factory(dict[int, float])
    """The same to when the process that wrote it had recovered the log, by trio's clock."""
    served_from: float = 0.0
    """When the present process had recovered the log."""

    def learn(self, log: Log, writes: Sequence[tuple[int, Written]]) -> None:
        """Take what the present process wrote.

        Args:
            log: As it is now.
            writes: By position, in its order.
        """
        starts = [position for position, _ in writes]
        for record in reversed(log.present()):
            at = bisect_right(starts, record.position) - 1
            if at < 0:
                break
            self.written[record.position] = writes[at][1]
            self.lives[record.position] = self.served_from

    def forget(self, end: int) -> None:
        """The log ends there now: what stood behind is gone, and others take its place."""
        self.written = {at: one for at, one in self.written.items() if at < end}

    def settled_end(self, log: Log, sync_seconds: float) -> int:
        """Position up to which the log is old enough.

        Args:
            log: As it is now.
            sync_seconds: How long a sync takes; one may be under way, and then comes the next.
        """
        latest = trio.current_time() - UNSYNCED_SECONDS - 2 * sync_seconds - 0.005
        end = 0
        for record in log.present():
            written = self.written.get(record.position)
            if written is None or max(written.time, self.served_from) > latest:
                break
            end = record.end
        return end
