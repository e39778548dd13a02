"""RocketMQ's own broker as a server under measurement, with either of its engines for timers.

It is started as the interop tests start it (``tests/interop/java_peer.py``), but with both of
Java's compilers, and is sent messages until its code is compiled.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

import attrs

from interop.java_peer import JavaBroker, JavaPeer, fetch_jars
from timermq.bench.broker_process import WARM_SECONDS, BrokerProcess
from timermq.bench.dialect import Workload
from timermq.bench.load import pull, send

HEAP = ("-Xms1g", "-Xmx1g")
WARM_COUNT = 20_000
"""Messages that a broker delivers before it is asked anything."""
PATIENCE = {"waitTimeMillsInSendQueue": "60000"}
"""A pipelined load is not refused for having waited 200 ms."""
ENGINES: Mapping[str, Mapping[str, str]] = {
    "wheel": {},
    "RocksDB": {"timerRocksDBEnable": "true"},
}
"""Settings beside the defaults, by engine; the wheel is Java's default."""


class RocketMQServer(BrokerProcess):
    """One serving broker of RocketMQ's with a name server of its own, until ``close``."""

    def __init__(self, folder: Path, peer: JavaPeer, settings: Mapping[str, str]) -> None:
        super().__init__(folder, "ASYNC_FLUSH")
        self._peer = peer
        self._settings = settings
        self._namesrv = contextlib.ExitStack()
        self._running = contextlib.ExitStack()
        self._names = self._namesrv.enter_context(peer.namesrv(folder / "namesrv")).listen
        self._broker: JavaBroker | None = None

    @property
    def process_id(self) -> int:
        """The process that serves now."""
        assert self._broker is not None
        return self._broker.process.pid

    def start(self) -> None:
        """Start it, on a new port, and wait until the name server knows it."""
        broker = self._peer.broker(self.store, namesrv=self._names, settings=self._settings)
        self._broker = self._running.enter_context(broker)
        host, _, port = self._broker.listen.rpartition(":")
        self.address = (host, int(port))

    def kill(self) -> None:
        """Kill it as the kernel would: no word of warning."""
        if self._broker is not None:
            self._broker.kill()
            self._running.close()
            self._broker = None

    def stop(self) -> None:
        """Let it end in order."""
        self._running.close()
        self._broker = None

    def close(self) -> None:
        """End the broker and its name server."""
        self.kill()
        self._namesrv.close()


def compiled() -> JavaPeer:
    """The newest release, its jars fetched and its classes compiled once a machine."""
    return attrs.evolve(JavaPeer.compiled(fetch_jars()), java=HEAP)


def warm(workload: Workload) -> None:
    """Send messages that are due soon, and take them all."""
    send(workload)
    pull(workload, "bench-warm-up", WARM_SECONDS)


@contextlib.contextmanager
def rocketmq_server(peer: JavaPeer, engine: str) -> Generator[RocketMQServer]:
    """A warm broker on a store of its own, both gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        server = RocketMQServer(Path(folder), peer, PATIENCE | {**ENGINES[engine]})
        try:
            server.start()
            warm(server.workload("BenchWarm", WARM_COUNT, delay_ms=1_000))
            yield server
        finally:
            server.close()
