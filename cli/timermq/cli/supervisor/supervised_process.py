"""One broker's process, as its supervisor sees it: started, heard of, and how it ended.

The broker tells by datagrams of sd_notify's form that it is ready, where its metrics are, and that
it lives. Its standard input is a pipe of the supervisor's: when that ends, by SIGKILL too, the
broker stops in order, and no process is left that keeps a store locked.
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
    """How a broker's process does now."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"
    """It ended badly, and is started again."""
    STOPPED = "stopped"
    """It ended in order."""


@attrs.define(eq=False)
class BrokerProcess:
    """A broker of the plan and its process; the next one after one that ended is the same object.

    Args:
        plan: Its settings.
        command: What starts it, without those.
        notices: Path of its socket for notices.
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
    """Set while the process takes requests, and afterwards until the next one starts."""
    _signal: signal.Signals | None = attrs.field(default=None, init=False)
    """The last that was sent: the brokers are stopped, and a new process is told so, too."""

    async def run(self) -> int:
        """Run the broker until it ends; its exit code, or less a signal's number.

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
        """Send a signal to the process, or to one that is being started."""
        self._signal = number
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process: it hangs, and is started again."""
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
    """The environment of a broker: its notices go to the supervisor, who is its watchdog too."""
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
