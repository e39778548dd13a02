"""The README's commands and program, run as they stand there."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from interop.serving import start

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [line[2:] for line in README.splitlines() if line.startswith("$ ")]
PORTS = (10911, 9876)

pytestmark = pytest.mark.slow


def require_default_ports() -> None:
    """Skip where something else has the ports that the README speaks of."""
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} is taken on this machine")


def run(command: str, folder: Path) -> str:
    """Run one of the README's commands; returns what it printed."""
    words = shlex.split(command)
    if words[0] == ".venv/bin/timermq":
        words = [sys.executable, "-m", "timermq.cli", *words[1:]]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def command_with(word: str) -> str:
    """The one command of the README that has this word."""
    (found,) = [command for command in COMMANDS if word in command.split()]
    return found


def test_demo() -> None:
    """``make demo`` ends with its table and exit code 0."""
    printed = run(command_with("demo"), ROOT)

    assert "far, rolled" in printed


def test_two_minutes(tmp_path: Path) -> None:
    """Serve, send, pending, cancel, explain and consume, in turn, as the README has them."""
    require_default_ports()
    store = tmp_path / command_with("serve").split()[-1]
    broker = start(store, listen="127.0.0.1:10911", namesrv="127.0.0.1:9876")
    try:
        sends = [command for command in COMMANDS if " send " in command]
        run(sends[0], tmp_path)
        handle = re.search(r"djEg[A-Za-z0-9_=-]+", run(sends[1], tmp_path))
        waiting = run(command_with("pending"), tmp_path)
        assert handle is not None
        moved = run(command_with("reschedule").replace("HANDLE", handle[0]), tmp_path)
        verdict = run(command_with("cancel").replace("HANDLE", handle[0]), tmp_path)
        life = run(command_with("explain").replace("ID", handle[0]), tmp_path)
        consumed = run(command_with("consume"), tmp_path)
        program = re.search(r"```python\n(.*?)```", README, re.DOTALL)
        assert program is not None
        printed = run(f"{sys.executable} -c {shlex.quote(program[1])}", tmp_path)
    finally:
        broker.stop()

    assert "Orders" in waiting
    assert "moved" in moved
    assert "cancelled" in verdict
    assert life.splitlines()[0].endswith(" at 127.0.0.1:10911: cancelled")
    assert "pay or lose it" in consumed
    assert "b'hello'" in printed
