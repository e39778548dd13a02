"""`timermq top`: the real program in a terminal, and without one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.program import SMALL_FILES, RunProgram
from interop.serving import Broker, start
from pty_screen import pty_screen
from timermq.cli.top.screen import KEYS_LINE

DOWN, ESCAPE, ENTER, CTRL_C = "\x1b[B", "\x1b", "\r", "\x03"


def rows(text: str) -> list[str]:
    """The lines of a screen."""
    return text.split("\n")


def has_size(columns: int, lines: int, state: str) -> re.Pattern[str]:
    """A screen of a size: its state at the right end, the keys on the last line."""
    head = rf"timermq top .{{{columns - 12 - len(state)}}}{re.escape(state)}"
    return re.compile(rf"{head}\n(.*\n){{{lines - 2}}}{re.escape(KEYS_LINE)}")


@pytest.mark.slow
def test_a_screen_lives(tmp_path: Path, timermq: RunProgram) -> None:
    """It shows what waits, takes keys and sizes, outlives the broker, and leaves no trace."""
    broker = start(tmp_path / "store", *SMALL_FILES)
    try:
        for topic, key in (("Orders", "order-1"), ("Reminders", "call-1")):
            sent = timermq(
                "send", topic, "x", "--delay", "2h", "--key", key, "--namesrv", broker.namesrv
            )
            assert (0, "") == (sent.code, sent.err)
        with pty_screen("top", "--broker", broker.listen) as top:
            shown = top.wait_for(lambda text: "pending 2 " in text and "live" in text)
            assert has_size(80, 24, "live").fullmatch(shown)
            assert b"\x1b[?1049h" in top.output

            top.type("----")
            top.wait_for("1h a cell")
            top.type("/Ord" + ENTER)
            top.wait_for(lambda text: "with 'Ord' (1)" in text and "Reminders" not in text)
            top.type(DOWN + ENTER)
            top.wait_for(lambda text: "order-1" in text and "call-1" not in text)
            top.type(ESCAPE)
            top.wait_for("next slots")
            top.type(ESCAPE)
            top.wait_for("Reminders")

            top.resize(200, 60)
            top.wait_for(lambda text: bool(has_size(200, 60, "live").fullmatch(text)))
            top.resize(80, 24)
            top.wait_for(lambda text: bool(has_size(80, 24, "live").fullmatch(text)))

            top.type("p")
            top.wait_for("PAUSED")
            top.type("p?")
            top.wait_for("The wheel shows")
            top.type("?")
            top.wait_for("next slots")

            broker.kill()
            top.wait_for(lambda text: "reconnecting…" in text and "pending 2 " in text)
            broker = start(broker.store, *SMALL_FILES, listen=broker.listen, namesrv=broker.namesrv)
            top.wait_for(
                lambda text: (
                    rows(text)[0].endswith("live") and bool(re.search(r" up [0-9]+m?s ", text))
                )
            )
            assert "pending 2 " in top.text()

            top.type("q")
            assert 0 == top.wait_end()
            assert top.modes_before == top.modes()
            assert top.output.endswith(b"\x1b[?25h\x1b[?1049l")
    finally:
        broker.stop()


@pytest.mark.slow
def test_ctrl_c(broker: Broker) -> None:
    """It ends with 130, and the terminal is as it was."""
    with pty_screen("top", "--broker", broker.listen, columns=200, lines=60) as top:
        top.wait_for(lambda text: bool(has_size(200, 60, "live").fullmatch(text)))
        top.type(CTRL_C)

        assert 130 == top.wait_end()
        assert top.modes_before == top.modes()
        assert top.output.endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.slow
def test_nobody_listens_in_a_terminal() -> None:
    """One line, and the screen is never taken."""
    with pty_screen("top", "--broker", "127.0.0.1:1") as top:
        assert 1 == top.wait_end()
        assert "timermq: 127.0.0.1:1: cannot connect" in top.text()
        assert b"\x1b[?1049h" not in top.output


def test_one_frame(timermq: RunProgram, broker: Broker) -> None:
    """Where nobody types, one frame is printed, by name server as well."""
    for flags in (("--once", "--broker", broker.listen), ("--namesrv", broker.namesrv)):
        ran = timermq("top", *flags)

        assert (0, "") == (ran.code, ran.err)
        assert 24 == len(ran.out.splitlines())
        assert ran.out.startswith(f"timermq top  {broker.listen}  up ")


def test_one_snapshot(timermq: RunProgram, broker: Broker) -> None:
    """As JSON it is one object on one line."""
    ran = timermq("top", "--once", "--json", "--broker", broker.listen)

    (row,) = ran.rows
    assert (0, broker.listen, "SAFE") == (ran.code, row["address"], row["clock"])


@pytest.mark.slow
def test_snapshots_as_lines(broker: Broker) -> None:
    """They come as long as somebody reads them."""
    command = [sys.executable, "-m", "timermq.cli", "top", "--json", "--broker", broker.listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        uptimes = [json.loads(process.stdout.readline())["uptime_ms"] for _ in range(3)]
        process.stdout.close()

        assert (141, b"") == (process.wait(timeout=30), process.stderr.read())
    assert sorted(set(uptimes)) == uptimes


def test_nobody_listens(timermq: RunProgram) -> None:
    """The error is one line, with what the system said, as for every other verb."""
    ran = timermq("top", "--once", "--broker", "127.0.0.1:1")

    expected = "timermq: 127.0.0.1:1: cannot connect: connection refused\n"
    assert (1, "", expected) == (ran.code, ran.out, ran.err)
