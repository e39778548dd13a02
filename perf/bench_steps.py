"""What does each step of a message's way cost, without sockets and without waiting?

CPU time of the best of several rounds, microseconds a message, beside the calibration loop: the
same figure on two machines, or at two moments of one, is compared only through it.

Expected, 128 bytes a body: receiving and answering are JSON and text, so a few microseconds each;
append, enqueue and deliver are bytes and arithmetic, and the disk carries three times 400 bytes a
message into the page cache.

Run: ``python perf/bench_steps.py [--count N]``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from steps import STEPS, Workbench

from timermq.bench.calibration import REFERENCE_MS, calibrate
from timermq.bench.dialect import Workload
from timermq.bench.remoting import Remoting
from timermq.remoting import FrameConnection
from timermq.remoting.connection import Received
from timermq.remoting.send_run.send_v2 import SendAnswerTemplate

CHUNK = 65_536
ROUNDS = 5


def measure(name: str, count: int, work: Callable[[], object]) -> None:
    """Print the CPU that ``work`` takes for each of ``count`` messages."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    print(f"{name:28} {best / count * 1e6:8.2f} µs")


def receive(data: bytes) -> list[Received]:
    """All requests of a stream of frames, received in chunks."""
    connection = FrameConnection()
    requests: list[Received] = []
    for start in range(0, len(data), CHUNK):
        connection.receive_data(data[start : start + CHUNK])
        requests += connection.requests()
    return requests


def answer(count: int) -> bytes:
    """The answers to so many sends."""
    template = SendAnswerTemplate(region="DefaultRegion", trace_on="true")
    return b"".join(
        [
            template.frame(
                number,
                message_id="7F00000100002A9F0000000000000000",
                queue_id=0,
                queue_offset=number,
                unique_key="0123456789ABCDEF0123456789ABCDEF",
                recall_handle="djEgQmVuY2g",
            )
            for number in range(count)
        ]
    )


def run(count: int) -> None:
    """Print the CPU of every step, beside the calibration loop."""
    before = calibrate()
    dialect = Remoting()
    workload = Workload(dialect=dialect, address=("", 0), topic="Bench", count=count, delay_ms=1000)
    data = b"".join(dialect.puts(workload))
    measure("receive: frames to requests", count, lambda: receive(data))
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        bench = Workbench.at(Path(folder), count)
        bench.append()
        # Append comes last: it would leave the others more to do.
        for name in ("enqueue", "deliver", "pull", "append"):
            measure(name, count, partial(STEPS[name], bench))
    measure("answer", count, lambda: answer(count))
    print(f"calibration {(before + calibrate()) / 2:.2f} ms (reference {REFERENCE_MS} ms)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    run(parser.parse_args().count)
