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

READY_SECONDS = 20.0

Command = Callable[[int, Path], Sequence[str]]
"""The command line for a port of the loopback interface and a folder for files."""


@attrs.frozen
class PeerProcess:
    """A peer that serves: its process, and its host and port."""

    process_id: int
    address: tuple[str, int]


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
