"""What do two brokers on one machine carry that one does not, and what does a message cost then?

``timermq serve --brokers N`` runs with one broker and with two, one after the other, again and
again in one run. A load process a broker sends delayed messages; what counts is the CPU time of the
broker processes a message, and the messages a second of wall clock. Load and brokers share the
cores: on a machine of two cores two brokers and their loads want four, so the rate tells little
there, and the CPU a message is the figure to read. It should not grow with a second broker.

Run: ``python perf/bench_brokers.py``; ``--count`` messages a broker, ``--keep`` writes the result.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import attrs
import psutil
from result_files import report

from timermq.bench.dialect import Workload
from timermq.bench.load import send
from timermq.bench.remoting import Remoting

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
ROUNDS = 3
DELAY_MS = 3_600_000
"""Nothing is delivered meanwhile: a send, its unit and its place in the wheel are measured."""


@attrs.frozen(kw_only=True)
class Round:
    """What the messages of one round took."""

    brokers: int
    messages: int
    cpu_s: float
    """Of the broker processes."""
    wall_s: float

    @property
    def cpu_us(self) -> float:
        """CPU time a message, in microseconds."""
        return self.cpu_s * 1e6 / self.messages

    @property
    def rate(self) -> float:
        """Messages a second of all brokers."""
        return self.messages / self.wall_s


@contextlib.contextmanager
def serving(count: int, folder: Path) -> Generator[list[tuple[psutil.Process, tuple[str, int]]]]:
    """So many brokers: the process of each, and where it listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        namesrv = int(probe.getsockname()[1])
    command = [
        sys.executable, "-m", "timermq.cli", "serve", f"--brokers={count}",
        "--store", str(folder / "stores"), "--listen", "127.0.0.1:0",
        "--namesrv-listen", f"127.0.0.1:{namesrv}",
    ]  # fmt: skip
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as served,
    ):
        until = time.monotonic() + READY_SECONDS
        while b"brokers ready" not in log.read_bytes():
            if served.poll() is not None or time.monotonic() > until:
                served.kill()
                raise RuntimeError(f"bench_brokers: the brokers did not start: {log.read_text()}")
            time.sleep(0.1)
        try:
            yield list(map(functools.partial(_of_broker, log), _children(served.pid)))
        finally:
            served.send_signal(signal.SIGTERM)
            served.wait(timeout=STOP_SECONDS)


def _children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()


def _of_broker(log: Path, process: psutil.Process) -> tuple[psutil.Process, tuple[str, int]]:
    """A broker's process, and its address as its line in the log tells it."""
    command = process.cmdline()
    for line in map(json.loads, log.read_text().splitlines()):
        if line["event"] == "broker ready" and f"--set=broker_name={line['broker']}" in command:
            host, _, port = str(line["listen"]).rpartition(":")
            return process, (host, int(port))
    raise RuntimeError(f"bench_brokers: no broker ready of {command}")


def measure(brokers: int, count: int) -> Round:
    """One round with so many brokers, and ``count`` messages for each."""
    with tempfile.TemporaryDirectory() as name, serving(brokers, Path(name)) as served:
        workloads = [
            Workload(
                dialect=Remoting(),
                address=address,
                topic="Bench",
                count=count,
                delay_ms=DELAY_MS,
            )
            for _, address in served
        ]
        before = sum(_cpu_s(process) for process, _ in served)
        with multiprocessing.get_context("spawn").Pool(brokers) as loads:
            seconds = loads.map(send, workloads)
        wall_s = max(seconds)
        spent = sum(_cpu_s(process) for process, _ in served) - before
    return Round(brokers=brokers, messages=brokers * count, cpu_s=spent, wall_s=wall_s)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def figures(rounds: list[Round]) -> Mapping[str, float]:
    """The median of each figure."""
    return {
        "cpu_us": round(statistics.median(one.cpu_us for one in rounds), 2),
        "rate": round(statistics.median(one.rate for one in rounds)),
    }


def main() -> None:
    """Measure one broker and two, in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000, help="messages a broker and round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", action="store_true", help="write results/brokers.json")
    args = parser.parse_args()
    found: dict[int, list[Round]] = {1: [], 2: []}
    for _ in range(args.rounds):
        for brokers, rounds in found.items():
            rounds.append(measure(brokers, args.count))
    content = {str(brokers): figures(rounds) for brokers, rounds in found.items()}
    report("brokers", {"count": args.count, "brokers": content}, keep=args.keep)


if __name__ == "__main__":
    main()
