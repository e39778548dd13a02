"""A broker in a process of its own, as a user runs it, and what real clients printed about it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

import attrs

from waiting import wait_until

READY_SECONDS = 30.0


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@attrs.define
class Broker:
    """A serving process and how to reach it."""

    process: subprocess.Popen[bytes]
    store: Path
    listen: str
    namesrv: str
    log: Path

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=15)


def start(
    store: Path, *flags: str, listen: str = "", namesrv: str = "", log: Path | None = None
) -> Broker:
    """Start ``timermq serve`` on ``store`` and wait until it says that it is ready.

    Its log is beside the store, unless it is to be elsewhere. The test that starts a broker ends
    it, whatever happens in between: tests do by ``starting``.
    """
    listen = listen or f"127.0.0.1:{free_port()}"
    namesrv = namesrv or f"127.0.0.1:{free_port()}"
    log = log or store.parent / f"{store.name}.log"
    command = [sys.executable, "-m", "timermq.cli", "serve", "--store", str(store)]
    command += ["--listen", listen, "--namesrv-listen", namesrv, *flags]
    with log.open("ab") as output:
        start_at = output.tell()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=_environment())
    with ended_unless_ready(process):
        wait_until(
            lambda: b"broker ready" in log.read_bytes()[start_at:],
            READY_SECONDS,
            told=lambda: f"the broker is not ready:\n{log.read_text()[-4000:]}",
            is_over=lambda: process.poll() is not None,
            pause=0.02,
        )
    return Broker(process, store, listen, namesrv, log)


@contextlib.contextmanager
def ended_unless_ready(process: subprocess.Popen[bytes]) -> Generator[None]:
    """Kills a process when the wait for it, in the block, fails."""
    try:
        yield
    except AssertionError:
        process.kill()
        process.wait()
        raise


class StartBroker(Protocol):
    """What ``starting`` gives: ``start``, with its arguments."""

    def __call__(self, store: Path, *flags: str, listen: str = "", namesrv: str = "") -> Broker:
        """Start a broker on this store, with these flags of ``timermq serve``."""
        ...


@contextlib.contextmanager
def starting() -> Generator[StartBroker]:
    """Starts brokers, also one where another was; what runs at the end of the block is killed.

    A process that a failed test leaves behind would be blamed on whatever test comes next.
    """
    with contextlib.ExitStack() as running:

        def start_one(store: Path, *flags: str, listen: str = "", namesrv: str = "") -> Broker:
            broker = start(store, *flags, listen=listen, namesrv=namesrv)
            running.callback(broker.kill)
            return broker

        yield start_one


@contextlib.contextmanager
def serving(store: Path, *flags: str) -> Generator[Broker]:
    """A broker for the length of a block; stopped by SIGTERM at its end."""
    with starting() as start_one:
        broker = start_one(store, *flags)
        try:
            yield broker
        finally:
            if broker.process.poll() is None:
                broker.stop()


def _environment() -> dict[str, str]:
    """The environment without settings that would change the broker under test."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIMERMQ_")}


@attrs.frozen
class Got:
    """One message that a client received."""

    body: str
    message_id: str
    received_ms: int
    stored_ms: int
    tag: str
    queue_id: int = -1
    """Unless the client prints where it was."""
    queue_offset: int = -1


@attrs.frozen
class Transcript:
    """What a client printed, sorted by what happened."""

    sent: dict[str, tuple[str, str]]
    """Body to message id and moment (or ``-``)."""
    got: list[Got]
    recalled: dict[str, str]
    done: bool

    @classmethod
    def of(cls, text: str) -> Transcript:
        """Read what ``cpp_client.py`` or ``TimerClient.java`` printed; other lines are logs."""
        sent: dict[str, tuple[str, str]] = {}
        got: list[Got] = []
        recalled: dict[str, str] = {}
        done = False
        for line in text.splitlines():
            words = line.split()
            match words:
                case ["SENT", body, message_id, moment]:
                    sent[body] = (message_id, moment)
                case ["GOT", body, message_id, received, stored, tag, *place]:
                    where = map(int, place)
                    got.append(Got(body, message_id, int(received), int(stored), tag, *where))
                case ["RECALLED", body, answer]:
                    recalled[body] = answer
                case ["DONE"]:
                    done = True
                case _:
                    pass
        return cls(sent, got, recalled, done)

    def times_got(self, body: str) -> int:
        """How often a body arrived."""
        return sum(one.body == body for one in self.got)

    def only(self, body: str) -> Got:
        """The one arrival of a body."""
        found = [one for one in self.got if one.body == body]

        assert len(found) == 1, f"{body} arrived {len(found)} times"
        return found[0]
