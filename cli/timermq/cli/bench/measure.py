"""Measuring a serving broker from outside: its CPU, and the machine's speed beside it.

Wall-clock rates swing by a factor of three on shared machines. So each figure comes with the CPU
time that the broker used for a message, and with a calibration: what a fixed piece of plain Python
costs at that moment.
"""

from __future__ import annotations

import time
from pathlib import Path

import attrs
import psutil

CALIBRATION_ROUNDS = 100_000
REFERENCE_MS = 2.8
"""Calibration of the machine that the floors were measured on, milliseconds of CPU."""


@attrs.frozen(kw_only=True)
class Sample:
    """One measurement."""

    question: str
    messages: int
    body_size: int
    seconds: float
    cpu_seconds: float
    """CPU time of the broker, all threads."""
    calibration_ms: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of the broker's CPU a message."""
        return self.cpu_seconds / self.messages * 1e6

    @property
    def normal_cpu_us(self) -> float:
        """The same, scaled to the reference machine."""
        return self.cpu_us * REFERENCE_MS / self.calibration_ms

    def to_json(self) -> dict[str, float | int | str]:
        """One line of ``--json``."""
        return {
            "question": self.question,
            "messages": self.messages,
            "body_size": self.body_size,
            "seconds": round(self.seconds, 3),
            "per_second": round(self.rate),
            "cpu_us": round(self.cpu_us, 2),
            "normal_cpu_us": round(self.normal_cpu_us, 2),
            "calibration_ms": round(self.calibration_ms, 2),
        }


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
    """CPU time that a process has used so far."""
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)


def own_memory(process_id: int) -> int:
    """Anonymous memory of a process, bytes: what mapped files do not count into."""
    for line in _smaps(process_id):
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    return 0


def _smaps(process_id: int) -> list[str]:
    return Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii").splitlines()
