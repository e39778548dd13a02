"""Starts of real Java consumers beside a busy machine: how late each got its first timer.

A module of its own for ``make starts`` (``perf/starts.py``) and the test of it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
from collections.abc import Generator, Sequence

import attrs

DELAY_MS = 3_000
"""Delay of the timers: longer than most starts take."""
RUN_SECONDS = 280.0
"""How long a process of some starts may take."""


@attrs.frozen
class Start:
    """One consumer that has started, and got its timer."""

    topic: str
    due_ms: int
    started_ms: int
    """When the call that starts it returned."""
    received_ms: int
    """-1: a minute later, nothing had come."""

    @property
    def late_ms(self) -> float:
        """How late the timer came: behind its moment, or behind the start if that was later."""
        if self.received_ms < 0:
            return float("inf")
        return self.received_ms - max(self.due_ms, self.started_ms)


def run_starts(command: Sequence[str]) -> list[Start]:
    """The starts of one process of ``StartClient``.

    Args:
        command: Its command line.
    """
    run = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    lines = [line.split() for line in run.stdout.splitlines()]
    if ["DONE"] not in lines or any(words[:1] == ["FAILED"] for words in lines):
        raise AssertionError(
            f"not all consumers started:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
        )
    return [Start(words[1], *map(int, words[2:5])) for words in lines if words[:1] == ["STARTED"]]


def _spin() -> None:
    """Use a core until the process that has started this one is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        pass


@contextlib.contextmanager
def busy_machine(count: int = 2) -> Generator[None]:
    """Processes that do nothing but use a core each, for the length of a block."""
    spinning = [multiprocessing.get_context("spawn").Process(target=_spin) for _ in range(count)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.join()
