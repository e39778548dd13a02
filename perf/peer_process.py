"""A peer in a process of its own: a foreign server, started on a throw-away folder, killed."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from timermq.bench.dialect import Dialect, Workload

READY_SECONDS = 20.0

Command = Callable[[int, Path], Sequence[str]]
"""The command line for a port of the loopback interface and a folder for files."""


@attrs.frozen
class PeerProcess:
    """A peer that serves: its process, and its host and port."""

    process_id: int
    address: tuple[str, int]


@attrs.frozen
class PeerServer:
    """A peer under measurement, and what is spoken with it; topics need not be made."""

    peer: PeerProcess
    dialect: Dialect
    begin: Callable[[str], None] = lambda _topic: None
    """Called with the topic of each load, before it."""

    @property
    def process_id(self) -> int:
        """The process that serves now."""
        return self.peer.process_id

    def workload(
        self,
        topic: str,
        count: int,
        *,
        body_size: int = 128,
        delay_ms: int = 0,
        connections: int = 4,
    ) -> Workload:
        """A load for this peer, of one topic."""
        self.begin(topic)
        return Workload(
            dialect=self.dialect,
            address=self.peer.address,
            topic=topic,
            count=count,
            body_size=body_size,
            delay_ms=delay_ms,
            connections=connections,
        )


@contextmanager
def peer_process(command: Command, port: int) -> Generator[PeerProcess]:
    """Start a peer and wait until it takes connections; it and its files are gone afterwards.

    Raises:
        RuntimeError: It did not start; the text is what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        log = Path(folder) / "peer.log"
        files = Path(folder) / "files"
        files.mkdir()
        with log.open("wb") as output:
            process = subprocess.Popen(command(port, files), stdout=output, stderr=output)
        try:
            _await(process, port, log)
            yield PeerProcess(process.pid, ("127.0.0.1", port))
        finally:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until connections to the port are taken."""
    started = time.monotonic()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            late = time.monotonic() > started + READY_SECONDS
            if late or process.poll() is not None:
                raise RuntimeError(
                    f"bench: {process.args!r} did not start:\n{log.read_text()[-2000:]}"
                ) from None
            time.sleep(0.02)
        else:
            return
