"""The supervisor's decisions, over small programs in place of brokers: what ends, what goes on."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from timermq.cli.service_manager import ServiceManager
from timermq.cli.supervisor import supervisor as module
from timermq.cli.supervisor.broker_plan import BrokerPlan
from timermq.cli.supervisor.supervised_process import BrokerProcess, State
from timermq.cli.supervisor.supervisor import Supervisor

LIMIT = 60.0
"""Seconds for anything that a process does."""
GOOD = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.connect(os.environ["NOTIFY_SOCKET"])
    sender.send(b"READY=1")
while True:
    signal.pause()
"""
BAD = "import sys; sys.exit(2)"
STOPPED_EARLY = "pass"
"""Ends as a broker does that is stopped before it is ready."""
NO_MANAGER = ServiceManager(address=None, watchdog_s=None)


@attrs.define
class Run:
    """A supervisor at work, and its exit code once it has ended."""

    supervisor: Supervisor
    code: int | None = None

    def pid(self, number: int) -> int | None:
        """The process of a broker now."""
        process = self.supervisor.brokers[number].process
        return None if process is None else process.pid

    async def until_ready(self, number: int, *, other_than: int | None = None) -> None:
        """Wait until a broker is ready, in a process that is another one."""
        one = self.supervisor.brokers[number]
        with trio.fail_after(LIMIT):
            while one.state is not State.READY or self.pid(number) == other_than:  # noqa: ASYNC110
                await trio.sleep(0.01)


@asynccontextmanager
async def running(
    folder: Path, *programs: str, manager: ServiceManager = NO_MANAGER
) -> AsyncGenerator[Run]:
    """A supervisor of these programs; the block ends when it has, or it is stopped then."""
    brokers = [
        BrokerProcess(
            BrokerPlan(number=number, name=f"b-{number}", store="", settings={}),
            [sys.executable, "-c", program],
            str(folder / str(number)),
        )
        for number, program in enumerate(programs)
    ]
    run = Run(Supervisor(brokers, manager))

    async def supervise() -> None:
        run.code = await run.supervisor.run()

    with trio.fail_after(2 * LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise)
            yield run


async def test_a_stop_ends_all(tmp_path: Path) -> None:
    """All are ready first; then each gets the signal, and the exit code is 0."""
    async with running(tmp_path, GOOD, GOOD) as run:
        await run.supervisor.all_ready.wait()
        assert [] == run.supervisor.unready()
        run.supervisor.request_stop()

    assert 0 == run.code
    assert [State.STOPPED] * 2 == [one.state for one in run.supervisor.brokers]


async def test_a_start_that_fails_ends_all(tmp_path: Path) -> None:
    """Its code is that of all, and it is told who it was."""
    with capture_logs() as logs:
        async with running(tmp_path, GOOD, BAD) as run:
            pass

    assert 2 == run.code
    assert not run.supervisor.all_ready.is_set()
    assert [("b-1", "exit code 2")] == [
        (one["broker"], one["ended"]) for one in logs if one["log_level"] == "error"
    ]


@pytest.mark.parametrize("programs", [(STOPPED_EARLY, GOOD), (GOOD, STOPPED_EARLY)])
async def test_a_broker_that_is_stopped_before_it_is_ready_ends_all(
    tmp_path: Path, programs: Sequence[str]
) -> None:
    """Else the others would wait for it for ever: not started, or never told to be ready."""
    async with running(tmp_path, *programs) as run:
        pass

    assert 1 == run.code
    assert not run.supervisor.all_ready.is_set()


async def test_a_broker_that_is_killed_comes_back(tmp_path: Path) -> None:
    """The others are left alone, it is told, and a stop in order afterwards counts as such."""
    with capture_logs() as logs:
        async with running(tmp_path, GOOD, GOOD) as run:
            await run.supervisor.all_ready.wait()
            first, second = run.pid(0), run.pid(1)
            run.supervisor.brokers[1].kill()
            await run.until_ready(1, other_than=second)
            assert (first, 1) == (run.pid(0), run.supervisor.brokers[1].restarts)
            run.supervisor.request_stop()

    assert 0 == run.code
    assert ["killed by SIGKILL"] == [one["ended"] for one in logs if one["log_level"] == "error"]


async def test_a_broker_that_stays_ended_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop while one waits for its next start ends the others, and the exit code is 1."""
    monkeypatch.setattr(module, "RESTART_PAUSE_MIN", LIMIT * 10)
    async with running(tmp_path, GOOD, GOOD) as run:
        await run.supervisor.all_ready.wait()
        run.supervisor.brokers[1].kill()
        while run.supervisor.brokers[1].state is not State.ENDED:  # noqa: ASYNC110 - a process
            await trio.sleep(0.01)
        assert ["b-1: ended (killed by SIGKILL)"] == run.supervisor.unready()
        run.supervisor.request_stop()

    assert 1 == run.code


async def test_a_broker_that_somebody_stops_stays_so(tmp_path: Path) -> None:
    """With the last one there is nothing left to do."""
    async with running(tmp_path, GOOD, GOOD) as run:
        await run.supervisor.all_ready.wait()
        for one in run.supervisor.brokers:
            assert one.process is not None
            one.process.send_signal(signal.SIGTERM)

    assert 0 == run.code
    assert [0, 0] == [one.restarts for one in run.supervisor.brokers]


async def test_a_broker_that_hangs_is_killed(tmp_path: Path) -> None:
    """Where the service manager has a watchdog, a broker without a sign of life is replaced."""
    manager = ServiceManager(address=None, watchdog_s=0.2)
    with capture_logs() as logs:
        async with running(tmp_path, GOOD, manager=manager) as run:
            await run.supervisor.all_ready.wait()
            before = run.pid(0)
            await run.until_ready(0, other_than=before)
            run.supervisor.request_stop()

    assert "broker hangs and is killed" in [one["event"] for one in logs]
