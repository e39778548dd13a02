"""A supervised process: its notices, its environment, and the words for its end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
import trio

from timermq.cli.supervisor.broker_plan import BrokerPlan
from timermq.cli.supervisor.supervised_process import (
    BrokerProcess,
    State,
    environment_of,
    how_it_ended,
)

PLAN = BrokerPlan(number=0, name="b-0", store="s", settings={"broker_name": "b-0"})


async def test_notices() -> None:
    """A broker is ready when it says so, and has its metrics where it says; the rest is life."""
    one = BrokerProcess(PLAN, [], "unused")
    one.hear("WATCHDOG=1")
    assert (State.STARTING, None) == (one.state, one.metrics)
    one.hear("READY=1\nX_TIMERMQ_METRICS=127.0.0.1:7")
    one.hear("STATUS=a=b\nno assignment")

    assert (State.READY, "127.0.0.1:7", True) == (one.state, one.metrics, one.ready.is_set())


def test_environment() -> None:
    """The supervisor is who is told, and a watchdog of its own does not mean the broker."""
    found = environment_of({"A": "1", "NOTIFY_SOCKET": "s", "WATCHDOG_PID": "7"}, "mine")

    assert {"A": "1", "NOTIFY_SOCKET": "mine"} == found


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-9, "killed by SIGKILL"),
        (-99, "killed by signal 99"),
    ],
)
def test_ends(code: int, text: str) -> None:
    """An exit code, or the signal's name."""
    assert text == how_it_ended(code)


async def test_a_signal_before_the_process(tmp_path: Path) -> None:
    """What is sent while the process is being started reaches it all the same."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    one = BrokerProcess(PLAN, command, str(tmp_path / "notices"))
    one.send_signal(signal.SIGTERM)
    with trio.fail_after(60):
        code = await one.run()

    assert (-signal.SIGTERM, "killed by SIGTERM") == (code, one.ended)
    assert one.process is None
