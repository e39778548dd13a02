"""A broker on a throw-away store, in a process of its own: started, killed, started again."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from .dialect import Workload
from .load import pull, send
from .remoting import Remoting
from .server import free_port

READY_SECONDS = 60.0
STOP_SECONDS = 60.0
WARM_SECONDS = 60.0


class BrokerProcess:
    """One serving broker.

    Args:
        folder: Holds the store, and the log of the process.
        flush: ``ASYNC_FLUSH`` or ``SYNC_FLUSH``.
        settings: More of them, ``key=value``.
        follow: ``host:port`` of a master to follow; None: it is one itself.
    """

    def __init__(
        self, folder: Path, flush: str, settings: Sequence[str] = (), follow: str | None = None
    ) -> None:
        self.store = folder / "store"
        self.address = ("127.0.0.1", free_port())
        self.ready_seconds = 0.0
        """How long the last start took."""
        self._log = folder / "broker.log"
        self._command = [sys.executable, "-m", "timermq.cli", "serve", "--store", str(self.store)]
        self._command += ["--listen", f"127.0.0.1:{self.address[1]}"]
        self._command += ["--namesrv-listen", f"127.0.0.1:{free_port()}"]
        self._command += ["--set", f"flush_disk_type={flush}", "--set", "vip_listen_enable=false"]
        for setting in settings:
            self._command += ["--set", setting]
        if follow is not None:
            self._command += ["--follow", follow]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int:
        """The process that serves now."""
        assert self._process is not None
        return self._process.pid

    def workload(
        self,
        topic: str,
        count: int,
        *,
        body_size: int = 128,
        delay_ms: int = 0,
        connections: int = 4,
    ) -> Workload:
        """A load for this broker. A message for each queue makes the topic, and is skipped."""
        workload = Workload(
            dialect=Remoting(),
            address=self.address,
            topic=topic,
            count=count,
            body_size=body_size,
            delay_ms=delay_ms,
            connections=connections,
            skip=1,
        )
        one = attrs.evolve(workload, count=workload.queue_count, delay_ms=1, connections=1, skip=0)
        send(one)
        pull(one, "bench-warm", WARM_SECONDS)
        return workload

    def start(self) -> None:
        """Start it and wait until it takes requests.

        Raises:
            RuntimeError: It did not; the text is its log.
        """
        started = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._command, stdout=output, stderr=output
            )
        while b"broker ready" not in self._log.read_bytes():
            late = time.monotonic() > started + READY_SECONDS
            if late or self._process.poll() is not None:
                raise RuntimeError(
                    f"bench: the broker did not start:\n{self._log.read_text()[-2000:]}"
                )
            time.sleep(0.02)
        self.ready_seconds = time.monotonic() - started

    def kill(self) -> None:
        """Kill it as the kernel would: no word of warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Let it end in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=STOP_SECONDS)
            self._process = None


@contextmanager
def broker_process(
    flush: str = "ASYNC_FLUSH",
    *,
    start: bool = True,
    settings: Sequence[str] = (),
    follow: str | None = None,
) -> Generator[BrokerProcess]:
    """A broker on a store of its own, both gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        broker = BrokerProcess(Path(folder), flush, settings, follow)
        try:
            if start:
                broker.start()
            yield broker
        finally:
            broker.kill()
