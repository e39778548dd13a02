"""A broker in a process of its own, on a throw-away store, and figures with bounds."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import attrs
import psutil

from timermq.remoting import Command, FrameConnection

READY_SECONDS = 60.0
OPEN_FILES = 16_384


@attrs.frozen
class Figure:
    """A question's answer, and the bound that it is held to."""

    question: str
    value: float
    unit: str
    bound: float | None
    """It must not be more; None: it is only told."""
    settings: str = ""
    """Of the broker, where they are not its defaults."""

    @property
    def passes(self) -> bool:
        """Whether it is within its bound."""
        return self.bound is None or self.value <= self.bound


@attrs.frozen
class Server:
    """A broker and where it listens."""

    process: psutil.Process
    port: int
    log: Path

    def own_size(self) -> int:
        """Memory that the broker's process shares with no other, bytes."""
        return int(self.process.memory_full_info().uss)

    def ready(self, key: str) -> str:
        """What its line `broker ready` says."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return str(next(line[key] for line in lines if line["event"] == "broker ready"))

    def connect(self) -> socket.socket:
        """A new connection, with a timeout of 30 seconds."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


def answered(connection: socket.socket, frame: bytes) -> Command:
    """The answer to one request.

    Raises:
        ConnectionError: The broker has closed the connection.
        TimeoutError: It is silent for longer than the connection waits.
    """
    connection.sendall(frame)
    frames = FrameConnection()
    while True:
        data = connection.recv(65_536)
        if not data:
            raise ConnectionError("expected an answer, found the connection closed by the broker")
        frames.receive_data(data)
        for answer in frames.events():
            return answer


def call(connection: socket.socket, frame: bytes) -> tuple[int, float]:
    """Code of the answer to one request, and how long it took."""
    begun = time.monotonic()
    code = answered(connection, frame).code
    return code, time.monotonic() - begun


def kept_answer(figure: Figure) -> dict[str, object]:
    """A figure as it is kept."""
    return {**attrs.asdict(figure), "value": round(figure.value, 2), "passes": figure.passes}


def report(figures: Sequence[Figure]) -> int:
    """Print the figures, an object a line; 1 when one is beyond its bound."""
    for one in figures:
        print(json.dumps(attrs.asdict(one)))
    return int(not all(one.passes for one in figures))


def raise_file_limit() -> None:
    """As many open files as thousands of connections need."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, OPEN_FILES), hard))


@contextlib.contextmanager
def serving(*flags: str) -> Generator[Server]:
    """A broker for the length of a block; killed at its end."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        folder = Path(name)
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        log = folder / "log"
        command = [
            sys.executable, "-m", "timermq.cli", "serve", "--store", str(folder / "store"),
            "--listen", f"127.0.0.1:{port}", "--set=namesrv_listen_enable=false",
            "--set=vip_listen_enable=false",
            "--set=mapped_file_size_commit_log=16777216", "--set=max_hash_slot_num=1000",
            "--set=max_index_num=4000", *flags,
        ]  # fmt: skip
        with (
            log.open("wb") as output,
            subprocess.Popen(command, stdout=output, stderr=output) as served,
        ):
            until = time.monotonic() + READY_SECONDS
            while b"broker ready" not in log.read_bytes():
                if served.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the broker did not start: {log.read_text()}")
                time.sleep(0.1)
            try:
                yield Server(psutil.Process(served.pid), port, log)
            finally:
                served.kill()
