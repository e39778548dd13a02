"""The real RocketMQ from Maven Central: its jars, and its broker and name server as processes.

Everything listens on loopback, on ports that were free. The jars are fetched once a machine, into a
folder of the user's in the temporary directory, and what is compiled stands beside them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

import attrs

from interop.java_built import (
    archive_flags,
    archive_of,
    compiled_once,
    locked,
    publish_archives,
)
from interop.serving import ended_unless_ready
from waiting import wait_until


@attrs.frozen
class Release:
    """Jars of one release of RocketMQ, as Maven Central has them."""

    broker: str
    """Version of broker, store, common and remoting; it names the release."""
    tools: str
    """Version of client, tools, name server and the rest."""


RELEASE_5_5 = Release("5.5.1", "5.5.0")
"""The newest; its client and tools came no further than 5.5.0."""
RELEASE_5_3 = Release("5.3.3", "5.3.3")
"""The last before the delete key of a timer changed, in 5.4.0."""
RELEASE_4 = Release("4.9.7", "4.9.7")
"""The last of 4.9 whose broker is on Maven Central."""
RELEASE = next(
    one
    for one in (RELEASE_5_5, RELEASE_5_3)
    if one.broker == os.environ.get("TIMERMQ_ROCKETMQ_VERSION", RELEASE_5_5.broker)
)
"""The one that most tests run with."""
SOURCES = Path(__file__).parent / "java"
START_SECONDS = 120.0
STOP_SECONDS = 60.0
FLAGS = (
    "-Xms128m",
    "-Xmx1g",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dtls.server.mode=disabled",
)
"""The first compiler alone: what starts for half a minute is not worth the second. A server that
takes TLS makes a key as it starts, which takes it longer than all else."""
PATIENCE = {"waitTimeMillsInSendQueue": "60000", "osPageCacheBusyTimeOutMills": "60000"}
"""RocketMQ's broker refuses sends that waited for 200 ms, as they do on a busy machine."""
UNMAPS = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.nio", "jdk.internal.ref", "sun.nio.ch")
)
"""Version 4 reaches into Java 8 to give a map back; kept from it, it does not end in order."""


def missing_tool(*tools: str) -> str | None:
    """The first of ``tools`` that is not installed here; None when all are."""
    return next((tool for tool in tools if shutil.which(tool) is None), None)


def fetch_jars(release: Release = RELEASE) -> Path:
    """Folder with the jars of a release; fetched at the first call on this machine."""
    versions = (
        f"-Drocketmq.version={release.tools}",
        f"-Drocketmq.broker.version={release.broker}",
    )
    return fetch_pom(f"rocketmq-{release.broker}", SOURCES / "pom.xml", *versions)


def fetch_pom(name: str, pom: Path, *flags: str) -> Path:
    """Folder with the jars that a pom asks for; fetched at the first call on this machine."""
    home = Path(tempfile.gettempdir()) / f"timermq-{name}-{os.getuid()}"
    home.mkdir(exist_ok=True)
    with locked(home):
        if not (home / "fetched").exists():
            fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *flags]
            fetch += ["-DincludeScope=runtime", f"-DoutputDirectory={home / 'lib'}"]
            subprocess.run(fetch, check=True, timeout=280)
            (home / "fetched").touch()
    return home / "lib"


@attrs.define
class JavaProcess:
    """A running name server or broker of RocketMQ."""

    process: subprocess.Popen[bytes]
    listen: str
    """``127.0.0.1:port``."""
    log: Path
    """What it printed; its own log files stand beside in ``home/logs``."""

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, ``abort`` stays."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for the orderly end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise


@attrs.define
class JavaBroker(JavaProcess):
    """A running broker of RocketMQ's, with its store."""

    store: Path
    namesrv: str
    """The name servers it registers with: ``host:port;…``."""


@attrs.frozen
class JavaPeer:
    """Starts name servers and brokers of RocketMQ."""

    classes: Path
    """A folder, or a jar."""
    jars: Path
    broker_class: str = "org.apache.rocketmq.broker.BrokerStartup"
    java: tuple[str, ...] = FLAGS
    """Flags of Java."""
    writes_archives: bool = False
    """What runs leaves an archive of its classes."""

    @classmethod
    def compiled(cls, jars: Path) -> JavaPeer:
        """With the broker's replication listener on loopback, for which it has no setting."""
        service = {"META-INF/service/org.apache.rocketmq.store.ha.HAService": "LoopbackHA\n"}
        return cls(compiled_once(sorted((SOURCES / "peer").glob("*.java")), jars, service), jars)

    @classmethod
    def of_version_4(cls, jars: Path) -> JavaPeer:
        """Brokers of RocketMQ 4.9, and a client; they need a name server of version 5.

        All of their listeners need help to stay on loopback.
        """
        classes = compiled_once(sorted((SOURCES / "version4").glob("*.java")), jars)
        return cls(classes, jars, "LoopbackBroker")

    @classmethod
    def clients(cls, jars: Path) -> JavaPeer:
        """The programs in ``interop/java``, for their command lines."""
        return cls(compiled_once(sorted(SOURCES.glob("*.java")), jars), jars)

    def archived(self) -> JavaPeer:
        """The same, whose classes and those of clients are in archives, written once a machine."""
        clients = JavaPeer.clients(self.jars)
        with locked(self.jars.parent), tempfile.TemporaryDirectory() as run_dir:
            if not archive_of(clients.classes, "").exists():
                self._write_archives(clients, Path(run_dir))
        return self

    def _write_archives(self, clients: JavaPeer, run_dir: Path) -> None:
        """Run name server, broker and client, each to its end in order."""
        server, client = (attrs.evolve(one, writes_archives=True) for one in (self, clients))
        with server.broker(run_dir / "store") as broker:
            command = client.command("StoreClient", run_dir)
            command += ["send", broker.namesrv, "Topic", "plain=plain", "timer=delay:60000"]
            subprocess.run(command, check=True, timeout=START_SECONDS, stdout=subprocess.DEVNULL)
        publish_archives(server.classes)
        publish_archives(client.classes)

    @contextlib.contextmanager
    def namesrv(self, run_dir: Path, *, listen: str = "") -> Generator[JavaProcess]:
        """A name server for the length of a block.

        Args:
            run_dir: For its configuration and logs; made if absent.
            listen: Where another has been; empty: a port that is free.
        """
        port = listen.rpartition(":")[2] or str(free_ports(0)[0])
        settings = {"bindAddress": "127.0.0.1", "listenPort": port}
        command = self._command("org.apache.rocketmq.namesrv.NamesrvStartup", run_dir, settings)
        process, log = _start(command, run_dir, self._environment(run_dir))
        namesrv = JavaProcess(process, f"127.0.0.1:{port}", log)
        try:
            yield namesrv
        finally:
            # It keeps nothing, and takes seconds to end in order.
            (namesrv.stop if self.writes_archives else namesrv.kill)()

    @contextlib.contextmanager
    def broker(
        self,
        store: Path,
        *,
        namesrv: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Generator[JavaBroker]:
        """A broker for the length of a block, stopped by SIGTERM at its end unless it ended before.

        Args:
            store: Its ``storePathRootDir``, empty or not. Logs and configuration stand beside it.
            namesrv: Name servers to register with, ``host:port;…``; None: one of its own.
            settings: More lines for ``broker.conf``, or other values for those below.
        """
        with contextlib.ExitStack() as stack:
            run_dir = store.parent / f"{store.name}-java"
            if namesrv is None:
                namesrv = stack.enter_context(self.namesrv(run_dir / "namesrv")).listen
            port, _, ha_port = free_ports(0, -2, 1)
            lines = {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": "0",
                "bindAddress": "127.0.0.1",
                "brokerIP1": "127.0.0.1",
                "listenPort": str(port),
                "haListenPort": str(ha_port),
                "namesrvAddr": namesrv,
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
                "autoCreateTopicEnable": "true",
                "timerWheelEnable": "true",
                "recallMessageEnable": "true",
                **PATIENCE,
                **(settings or {}),
            }
            command = self._command(self.broker_class, run_dir, lines)
            process, log = _start(command, run_dir, self._environment(run_dir))
            broker = JavaBroker(process, f"127.0.0.1:{port}", log, store, namesrv)
            stack.callback(broker.stop)
            wait_registered(broker.namesrv, broker.listen, broker.listen)
            yield broker

    def command(self, main_class: str, home: Path) -> list[str]:
        """Command line of a class; ``home`` stands in for the user's folder (logs, offsets)."""
        archive = archive_flags(self.classes, main_class, write=self.writes_archives)
        classpath = f"{self.classes}:{self.jars}/*"
        flags = (*self.java, *archive, *UNMAPS, f"-Duser.home={home}")
        return ["java", *flags, "-cp", classpath, main_class]

    def _command(self, main_class: str, run_dir: Path, settings: Mapping[str, str]) -> list[str]:
        logging = run_dir / "home" / "conf"
        logging.mkdir(parents=True, exist_ok=True)
        # Without this file version 4 does not start; version 5 does not look for it.
        (logging / "logback_broker.xml").write_text("<configuration/>\n")
        config = run_dir / "settings.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return [*self.command(main_class, run_dir / "home"), "-c", str(config)]

    @staticmethod
    def _environment(run_dir: Path) -> dict[str, str]:
        return {**os.environ, "ROCKETMQ_HOME": str(run_dir / "home")}


def _start(
    command: list[str], run_dir: Path, environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a process of RocketMQ's and wait until it says that it serves."""
    log = run_dir / "output.log"
    with log.open("ab") as output:
        start_at = output.tell()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    with ended_unless_ready(process):
        wait_until(
            lambda: b"boot success" in log.read_bytes()[start_at:],
            START_SECONDS,
            told=lambda: f"{command[-3]} did not start:\n{log.read_text()[-4000:]}",
            is_over=lambda: process.poll() is not None,
        )
    return process, log


def wait_registered(namesrv: str, listen: str, told: str = "") -> None:
    """Until the first name server knows a broker, which says before that it serves.

    Args:
        namesrv: ``host:port;…``.
        listen: The address that the broker registers, ``host:port``.
        told: The address of RocketMQ's broker, which is told to register: by itself it does so
            after ten seconds where its first try came before its connection.
    """

    def is_known() -> bool:
        if f'"{listen}"'.encode() in _answer(namesrv.split(";")[0], CLUSTER):
            return True
        if told:
            _answer(told, SETTING, b"brokerPermission=6\n")
        return False

    wait_until(
        is_known,
        START_SECONDS,
        told=lambda: f"{namesrv} does not know the broker {listen}",
        pause=0.2,
    )


CLUSTER = 106
SETTING = 25
"""A new permission is registered at once."""


def _answer(address: str, code: int, body: bytes = b"") -> bytes:
    """The bytes with which a server answers a request without parameters."""
    host, _, port = address.partition(":")
    header = b'{"code":%d,"flag":0,"language":"JAVA","opaque":1,"version":0}' % code
    size = 4 + len(header) + len(body)
    with socket.create_connection((host, int(port)), timeout=START_SECONDS) as link:
        link.sendall(struct.pack(">ii", size, len(header)) + header + body)
        answer = link.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        return answer.read(size)


def free_ports(*distances: int) -> list[int]:
    """Ports that nothing listens on at this moment, at these distances from the first."""
    while True:
        with contextlib.ExitStack() as stack:
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
            try:
                for distance in distances:
                    if distance:
                        other = stack.enter_context(socket.socket())
                        other.bind(("127.0.0.1", first + distance))
            except OSError:
                continue
            return [first + distance for distance in distances]
