"""Starts of real Java consumers beside a busy machine: how late each got its first timer.

``make starts`` prints how many were on time, and the latest; 1 when one is beyond its bound. A Java
process starts ten, so that one in ten begins in a process that has just begun itself.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import attrs

from interop.java_peer import JavaPeer, fetch_jars
from interop.serving import serving

DELAY_MS = 3_000
"""Delay of the timers: longer than most starts take."""
LATE_MS_MAX = 5_000
"""The bound: a start that meets the next heartbeat alone is half a minute late."""
STARTS_A_PROCESS = 10
RUN_SECONDS = 280.0
"""How long a process of some starts may take."""
ASKED = "client asked for its subscriptions"
"""A line of the broker's log."""


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


def run_starts(command: Sequence[str], home: Path) -> tuple[list[Start], str]:
    """The starts of one process of ``StartClient``, and what it wrote into its logs.

    Args:
        command: Its command line.
        home: Stands in for the user's folder, where its logs are.
    """
    place = "-Duser.home="
    at_home = [f"{place}{home}" if part.startswith(place) else part for part in command]
    run = subprocess.run(at_home, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    lines = [line.split() for line in run.stdout.splitlines()]
    if ["DONE"] not in lines or any(words[:1] == ["FAILED"] for words in lines):
        raise AssertionError(
            f"not all consumers started:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
        )
    starts = [Start(words[1], *map(int, words[2:5])) for words in lines if words[:1] == ["STARTED"]]
    logs = sorted(home.glob("logs/rocketmqlogs/*.log"))
    return starts, "".join(log.read_text(errors="replace") for log in logs)


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


def main() -> int:
    """Start consumers, ten a process and two at a time; 1 when a timer is late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=200, help="a multiple of ten")
    args = parser.parse_args()
    found: list[Start] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        java = JavaPeer.clients(fetch_jars())
        with serving(home / "store") as broker, busy_machine():
            for number in range(args.starts // STARTS_A_PROCESS):
                command = java.command("StartClient", home)
                rest = [f"starts{number}", str(STARTS_A_PROCESS), "2", str(DELAY_MS)]
                starts, _ = run_starts([*command, broker.namesrv, *rest], home / f"java{number}")
                found += starts
                latest = max(one.late_ms for one in starts)
                print(
                    f"process {number}: the latest of {len(starts)} by {latest:.0f} ms", flush=True
                )
        asked = broker.log.read_text().count(ASKED)
    on_time = sum(one.late_ms <= LATE_MS_MAX for one in found)
    latest = max(one.late_ms for one in found)
    print(f"{on_time} of {len(found)} on time ({LATE_MS_MAX} ms); the latest by {latest:.0f} ms")
    print(f"clients asked for their subscriptions: {asked}")
    return int(on_time < len(found))


if __name__ == "__main__":
    sys.exit(main())
