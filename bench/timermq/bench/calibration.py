"""The machine's speed: what a fixed piece of plain Python costs, alone or beside what is measured.

The floors were set on a machine whose cores were all busy, and so is every machine while a server
and its load are measured. A loop that runs before or after, with the other cores at rest, says how
fast a core is then: up to twice as fast. So the loop runs *meanwhile*, in a process of its own, for
a few milliseconds ten times a second, and the median counts.
"""

from __future__ import annotations

import contextlib
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Generator

REFERENCE_MS = 2.8
"""Calibration of the machine that the floors were measured on, milliseconds of CPU."""
ROUNDS = 100_000
ALONE = 5
"""Loops of which the best counts, where nothing else is measured."""
PAUSE = 0.1
"""Seconds between two loops beside something."""


class Calibration:
    """Measures the speed of the machine by loops, beside what runs in a block."""

    def __init__(self) -> None:
        self.ms = 0.0
        """Milliseconds of CPU for the loop, the median; 0 until the block has ended."""

    @property
    def share(self) -> float:
        """CPU time on the reference machine for each second of it here."""
        return REFERENCE_MS / self.ms


def calibrate() -> float:
    """Milliseconds of CPU for the loop, now; the best of five."""
    return min(_loop_ms() for _ in range(ALONE))


@contextlib.contextmanager
def calibration() -> Generator[Calibration]:
    """Calibrate for the length of a block, which begins when the first loop is done.

    Raises:
        RuntimeError: The process of the loops ended by itself.
    """
    found = Calibration()
    # By its path: this module needs nothing of the package, whose import would disturb.
    with subprocess.Popen(  # noqa: S603 - this module
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = process.stdout.readline()
        try:
            yield found
        finally:
            process.stdin.close()
            rest = process.stdout.read()
    samples = [float(line) for line in (first + rest).splitlines()]
    if not samples or process.returncode:
        raise RuntimeError(f"calibration: ended with {process.returncode}")
    found.ms = statistics.median(samples)


def _loop_ms() -> float:
    started = time.process_time()
    total = 0
    for number in range(ROUNDS):
        total += number & 7
    return (time.process_time() - started) * 1000


def _run() -> None:
    """Print what each loop took until the input ends."""
    while True:
        sys.stdout.write(f"{_loop_ms()}\n")
        sys.stdout.flush()
        if select.select([sys.stdin], [], [], PAUSE)[0]:
            break


if __name__ == "__main__":
    _run()
