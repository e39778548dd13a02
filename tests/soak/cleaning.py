"""Cleaning, forced: small segments that go seconds after they were full, unless a pin holds them.

The shortest retention that a broker knows is an hour. So a segment is made two hours older once the
broker has served on for `RETENTION_SECONDS` since it was full: consumers had that long to read it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

LOG_SEGMENT = 1 << 19
TIMER_LOG_SEGMENT = 52 * 500 + 16
SETTINGS = {
    "mapped_file_size_commit_log": LOG_SEGMENT,
    "mapped_file_size_timer_log": TIMER_LOG_SEGMENT,
    "timer_roll_window_slot": 12,
    "file_reserved_time_hours": 1,
    "clean_resource_interval_ms": 500,
    "disk_max_used_space_ratio": 0,
}
"""Over those of every soak: what waits holds its segment for longer than the retention."""
RETENTION_SECONDS = 6.0
_TICK_SECONDS = 0.5
_AGE_SECONDS = 2 * 3_600


class PinBrokenError(Exception):
    """A store lacks something that it needs."""


@attrs.frozen
class Cleaned:
    """Segments that went, from the begin of the store on."""

    log: int
    timer_log: int

    @classmethod
    def of(cls, store: Path) -> Cleaned:
        """Count them: a segment has the name of its first byte, and the oldest go first."""
        return cls(
            _segments(store / "commitlog")[0] // LOG_SEGMENT,
            _segments(store / "timerlog")[0] // TIMER_LOG_SEGMENT,
        )


@attrs.frozen
class Ageing:
    """Lets the time pass for segments of the commit log that are full.

    Args:
        store: Directory of the store.
        is_serving: Whether the broker runs: only then somebody can read.
    """

    store: Path
    is_serving: Callable[[], bool]
    _served: Counter[int] = attrs.field(factory=Counter[int], init=False)
    """First byte of a segment to the ticks since it was full."""

    async def run(self) -> None:
        """For ever."""
        while True:
            await trio.sleep(_TICK_SECONDS)
            if self.is_serving():
                self.tick()

    def tick(self) -> None:
        """Half a second of serving has passed."""
        directory = self.store / "commitlog"
        for first in _segments(directory)[:-1]:
            self._served[first] += 1
            if self._served[first] == RETENTION_SECONDS / _TICK_SECONDS:
                path = directory / f"{first:020d}"
                aged = path.stat().st_mtime - _AGE_SECONDS
                os.utime(path, (aged, aged))


def check_store(store: Path, flags: list[str]) -> None:
    """Have ``store check`` look at a store that nobody serves: nothing pending may be cleaned.

    Raises:
        PinBrokenError: It found something.
    """
    command = [sys.executable, "-m", "timermq.cli", "store", "check", str(store), *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PinBrokenError(f"{store}: {done.stdout}{done.stderr}")


def _segments(directory: Path) -> list[int]:
    """First bytes of the segments of a log, ascending."""
    return sorted(int(one.name) for one in directory.iterdir() if one.name.isdigit())
