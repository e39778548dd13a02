"""One broker's process, as its supervisor sees it: how it starts, what it tells, how it ends.

The broker sends datagrams in sd_notify's form: that it is ready, where its metrics are, and that it
lives. Its standard input is a pipe from the supervisor. When the supervisor ends, even by SIGKILL,
the pipe ends too, and the broker stops in order. So no process is left that keeps a store locked.
"""

from __future__ import annotations

import enum
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

import attrs
import trio

from .broker_plan import METRICS_NOTICE, BrokerPlan

NOTICE_SIZE_MAX = 4_096
"""Bytes of one notice."""


class State(enum.Enum):
    """The state of a broker's process."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"
    """It ended badly, and is started again."""
    STOPPED = "stopped"
    """It ended in order."""


@attrs.define(eq=False)
class BrokerProcess:
    """A broker of the plan, and its process: one after the other, if it is started again.

    Args:
        plan: The settings of its own.
        command: What starts it, without these settings.
        notices: Path of the socket that takes its notices.
    """

    plan: BrokerPlan
    command: Sequence[str]
    notices: str
    state: State = State.STARTING
    ended: str = ""
    """How it ended last."""
    restarts: int = 0
    heard_at: float = 0.0
    """trio's time of the last notice."""
    metrics: str | None = None
    """Address of its metrics; None: it has told none."""
    process: trio.Process | None = None
    ready: trio.Event = attrs.field(factory=trio.Event)
    """Set once the process takes requests, until the next process starts."""
    _signal: signal.Signals | None = attrs.field(default=None, init=False)
    """The last signal from the supervisor; a process that is just being started gets it too."""

    async def run(self) -> int:
        """Run the broker until it ends; returns its exit code, or a signal's number below 0.

        Raises:
            OSError: It cannot be started.

        Cancellation: the process is killed.
        """
        self.state, self.metrics = State.STARTING, None
        if self.ready.is_set():
            self.ready = trio.Event()
        self.heard_at = trio.current_time()
        process = await trio.lowlevel.open_process(
            [*self.command, *self.plan.flags()],
            stdin=subprocess.PIPE,
            env=environment_of(os.environ, self.notices),
            process_group=0,  # a terminal's Control-C goes to the supervisor alone
        )
        self.process = process
        if self._signal is not None:  # it came while the process was started
            process.send_signal(self._signal)
        try:
            code = await process.wait()
        finally:
            self.process = None
            if process.returncode is None:
                process.kill()
            if process.stdin is not None:
                await trio.aclose_forcefully(process.stdin)
        self.ended = how_it_ended(code)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, also to one that is just being started."""
        self._signal = number
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill a process that hangs; it is not a stop, so it is started again."""
        if self.process is not None:
            self.process.kill()

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take the broker's notices until cancelled."""
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            await receiver.bind(self.notices)
            task_status.started()
            while True:
                data = await receiver.recv(NOTICE_SIZE_MAX)
                self.hear(data.decode(errors="replace"))

    def hear(self, notice: str) -> None:
        """Take one notice: assignments, a line each."""
        self.heard_at = trio.current_time()
        values = {
            name: value for name, _, value in (one.partition("=") for one in notice.splitlines())
        }
        self.metrics = values.get(METRICS_NOTICE, self.metrics)
        if values.get("READY") == "1":
            self.state = State.READY
            self.ready.set()


def environment_of(environ: Mapping[str, str], notices: str) -> dict[str, str]:
    """The environment of a broker: notices, and signs of life, go to the supervisor."""
    kept = {name: value for name, value in environ.items() if name != "WATCHDOG_PID"}
    return {**kept, "NOTIFY_SOCKET": notices}


def how_it_ended(code: int) -> str:
    """The end of a process in words."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"


def serve_command(arguments: Sequence[str]) -> list[str]:
    """The command that starts a supervised broker of this program, before its own settings."""
    return [sys.executable, "-m", "timermq.cli", "serve", "--supervised", *arguments]
