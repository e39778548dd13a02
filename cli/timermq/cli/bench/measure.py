"""Measuring a serving broker from outside: its CPU, and the machine's speed beside it.

Wall-clock rates swing by a factor of three on shared machines. So each figure comes with the CPU
time that the broker used for a message, and with a calibration: what a fixed piece of plain Python
costs at that moment.
"""

from __future__ import annotations

import time
from pathlib import Path

CALIBRATION_ROUNDS = 100_000
_SCHEDULED = 2
"""CPUCLOCK_SCHED: the time that the scheduler gave, of all threads."""
REFERENCE_MS = 2.8
"""Calibration of the machine that the floors were measured on, milliseconds of CPU."""


def calibrate() -> float:
    """Milliseconds of CPU for a fixed loop of plain Python; the best of five."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        total = 0
        for number in range(CALIBRATION_ROUNDS):
            total += number & 7
        best = min(best, (time.process_time() - started) * 1000)
    return best


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
