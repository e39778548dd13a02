"""Cleaning, forced: small segments go when they are full and read, unless a pin holds them.

The shortest retention that a broker knows is an hour. So a segment is made two hours older when the
consumer has read on behind it: what goes before it was read is lost, and no broker promised it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
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
"""Over those of every soak. What waits for up to twelve seconds is all that holds a segment."""
_PAUSE_SECONDS = 0.5
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
    """Lets the time pass for segments of the commit log that are read.

    Args:
        store: Directory of the store.
        read_to: Position in the log before which consumers have read everything.
    """

    store: Path
    read_to: Callable[[], int]

    async def run(self) -> None:
        """Make segments old twice a second, until it is cancelled."""
        while True:
            await trio.sleep(_PAUSE_SECONDS)
            self.age()

    def age(self) -> None:
        """Make old what was read; again when something has been written there since."""
        directory, old = self.store / "commitlog", time.time() - _AGE_SECONDS
        for first in _segments(directory)[:-1]:
            path = directory / f"{first:020d}"
            with contextlib.suppress(FileNotFoundError):  # it was cleaned just now
                if first + LOG_SEGMENT <= self.read_to() and path.stat().st_mtime > old:
                    os.utime(path, (old, old))


def check_store(store: Path, flags: list[str]) -> None:
    """Have ``store check`` look at a stopped store: nothing pending may be cleaned.

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
