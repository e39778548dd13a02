"""Measure this machine: send, wait, pull at full speed, and a burst due at one instant.

A broker is started on a throw-away store, with real sockets; the load comes from processes of its
own. Each question prints messages a second, the broker's CPU a message, and the calibration beside
it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from .load import Shot, pull, send
from .measure import Sample, calibrate, cpu_seconds, own_memory

READY_SECONDS = 30.0
PULL_TIMEOUT = 30.0
STEADY_DELAY_MS = 1_000
"""Delay of each message in the steady question."""
LOAD_RATE = 5_000
"""Messages a second that loading a burst is expected to reach at least."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Flags of ``timermq bench``."""
    parser.add_argument(
        "question", nargs="?", choices=("steady", "burst", "all"), default="all", help="what to ask"
    )
    parser.add_argument("--count", type=int, default=100_000, help="messages a question")
    parser.add_argument("--body", type=int, default=128, help="bytes of a body")
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(args: argparse.Namespace) -> int:
    """Ask the questions, print the answers."""
    samples: list[Sample] = []
    for question in ("steady", "burst") if args.question == "all" else (args.question,):
        with _broker(args.flush) as broker:
            ask = _steady if question == "steady" else _burst
            samples.append(ask(broker, args.count, args.body))
            memory = own_memory(broker.process_id)
        if args.json:
            print(json.dumps({**samples[-1].to_json(), "own_memory": memory}), flush=True)
    if not args.json:
        _print_table(samples)
    return 0


@attrs.frozen
class _Broker:
    process_id: int
    address: tuple[str, int]


def _steady(broker: _Broker, count: int, body_size: int) -> Sample:
    """Send at full speed with a delay of a second each, pulling what becomes due meanwhile."""
    shot = Shot(
        address=broker.address,
        topic="BenchSteady",
        count=count,
        body_size=body_size,
        delay_ms=STEADY_DELAY_MS,
        skip=1,
    )
    _make_topic(shot)
    with _Meter("steady", broker, shot) as meter, multiprocessing.Pool(2) as pool:
        pulled = pool.apply_async(pull, (shot, "bench", PULL_TIMEOUT))
        started = time.time()
        pool.apply_async(send, (shot,)).get()
        meter.seconds = pulled.get()[1] - started - STEADY_DELAY_MS / 1000
    return meter.sample()


def _burst(broker: _Broker, count: int, body_size: int) -> Sample:
    """Everything due at one instant, a consumer waiting; from that instant to the last arrival."""
    shot = Shot(
        address=broker.address, topic="BenchBurst", count=count, body_size=body_size, skip=1
    )
    _make_topic(shot)
    instant_ms = int((time.time() + 3 + count / LOAD_RATE) * 1000)
    shot = attrs.evolve(shot, deliver_ms=instant_ms)
    with multiprocessing.Pool(2) as pool:
        pool.apply_async(send, (shot,)).get()
        if time.time() * 1000 > instant_ms - 1000:
            raise RuntimeError("bench: loading took longer than expected, use a smaller --count")
        pulled = pool.apply_async(pull, (shot, "bench", PULL_TIMEOUT))
        time.sleep(instant_ms / 1000 - 0.2 - time.time())
        with _Meter("burst", broker, shot) as meter:
            meter.seconds = pulled.get()[1] - instant_ms / 1000
    return meter.sample()


def _make_topic(shot: Shot) -> None:
    """One message makes the topic with its queues; its pull leaves it behind."""
    one = attrs.evolve(shot, count=shot.queue_count, delay_ms=1, deliver_ms=0, skip=0)
    send(one)
    pull(one, "bench-warm", PULL_TIMEOUT)


class _Meter:
    """CPU and calibration around a question."""

    def __init__(self, question: str, broker: _Broker, shot: Shot) -> None:
        self._question = question
        self._broker = broker
        self._shot = shot
        self.seconds = 0.0

    def __enter__(self) -> _Meter:
        self._calibration_ms = calibrate()
        self._cpu = cpu_seconds(self._broker.process_id)
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu = cpu_seconds(self._broker.process_id) - self._cpu
        self._calibration_ms = (self._calibration_ms + calibrate()) / 2

    def sample(self) -> Sample:
        return Sample(
            question=self._question,
            messages=self._shot.count,
            body_size=self._shot.body_size,
            seconds=self.seconds,
            cpu_seconds=self._cpu,
            calibration_ms=self._calibration_ms,
        )


@contextmanager
def _broker(flush: str) -> Generator[_Broker]:
    """A broker on a throw-away store."""
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        port, namesrv_port = _free_port(), _free_port()
        log = Path(folder) / "broker.log"
        command = [sys.executable, "-m", "timermq.cli", "serve", "--store", f"{folder}/store"]
        command += ["--listen", f"127.0.0.1:{port}"]
        command += [
            "--namesrv-listen",
            f"127.0.0.1:{namesrv_port}",
            "--set",
            f"flush_disk_type={flush}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603 - ours
        try:
            _wait_ready(process, log)
            yield _Broker(process.pid, ("127.0.0.1", port))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while b"broker ready" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"bench: the broker did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _print_table(samples: list[Sample]) -> None:
    table = Table("question", title="timermq bench")
    for name in ("messages", "body B", "msg/s", "CPU µs/msg", "normalised", "calibration ms"):
        table.add_column(name, justify="right")
    for one in samples:
        table.add_row(
            one.question,
            f"{one.messages:,}",
            f"{one.body_size}",
            f"{one.rate:,.0f}",
            f"{one.cpu_us:.1f}",
            f"{one.normal_cpu_us:.1f}",
            f"{one.calibration_ms:.2f}",
        )
    Console().print(table)
