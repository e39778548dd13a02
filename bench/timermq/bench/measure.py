"""Measuring a serving broker from outside: its CPU and its memory."""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDULED = 2
"""CPUCLOCK_SCHED: the time that the scheduler gave, of all threads."""


def cpu_seconds(process_id: int) -> float:
    """CPU time that a process has used so far, with all its threads, to the nanosecond.

    The clock that ``clock_getcpuclockid(3)`` names; /proc counts in hundredths of a second, which
    is too coarse for small loads.
    """
    return time.clock_gettime((~process_id << 3) | _SCHEDULED)


def own_memory(process_id: int) -> int:
    """Anonymous memory of a process, bytes: what mapped files do not count into."""
    for line in _smaps(process_id):
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    return 0


def _smaps(process_id: int) -> list[str]:
    return Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii").splitlines()
