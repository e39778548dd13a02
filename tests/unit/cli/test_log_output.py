"""Log lines: to standard error, as JSON or for people, from a level on."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import sys
import threading

import pytest
import structlog

from timermq.cli import log_output
from timermq.cli.log_output import (
    LogFormat,
    configure_logs,
    log_warnings,
    logs_in_background,
)


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line with the event, its facts, the level and the time."""
    configure_logs(LogFormat.JSON)
    structlog.get_logger().info("broker ready", listen="127.0.0.1:10911")
    captured = capsys.readouterr()
    line = json.loads(captured.err)

    assert captured.out == ""
    assert {key: value for key, value in line.items() if key != "timestamp"} == {
        "event": "broker ready",
        "listen": "127.0.0.1:10911",
        "level": "info",
    }
    assert line["timestamp"].endswith("Z")


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal there are no colours."""
    configure_logs(LogFormat.CONSOLE)
    structlog.get_logger().warning("disk nearly full", used_percent=91)
    line = capsys.readouterr().err

    assert "disk nearly full" in line
    assert "used_percent=91" in line
    assert "\x1b" not in line


def test_automatic_format(capsys: pytest.CaptureFixture[str]) -> None:
    """What does not go to a terminal is for programs."""
    configure_logs(LogFormat.AUTO)
    structlog.get_logger().info("x")

    assert json.loads(capsys.readouterr().err)["event"] == "x"


def test_level(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines below the level are not written."""
    configure_logs(LogFormat.JSON, logging.WARNING)
    structlog.get_logger().info("quiet")

    assert capsys.readouterr().err == ""


def test_errors_keep_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A logged exception is part of its line."""
    configure_logs(LogFormat.JSON)
    try:
        raise ValueError("odd")
    except ValueError:
        structlog.get_logger().exception("failed")
    line = json.loads(capsys.readouterr().err)

    assert line["exception"][0]["exc_value"] == "odd"


@pytest.mark.parametrize("log_format", [LogFormat.JSON, LogFormat.CONSOLE])
def test_tracebacks_show_no_values(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat
) -> None:
    """What a function had in its hands may be a secret, or a message."""
    configure_logs(log_format)
    secret = "x".join("secret")
    try:
        raise ValueError("odd")
    except ValueError:
        structlog.get_logger().exception("failed")

    assert secret not in capsys.readouterr().err


class FullDisk(io.StringIO):
    """Takes nothing while it is full."""

    is_full = True

    def write(self, text: str) -> int:
        """Write the text, unless the disk is full: then ENOSPC."""
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_lines_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """They raise nothing, and the next one that can be written is told how many they were."""
    disk = FullDisk()
    monkeypatch.setattr(sys, "stderr", disk)
    configure_logs(LogFormat.JSON)
    log = structlog.get_logger()
    for _ in range(3):
        log.info("early")
    disk.is_full = False
    for _ in range(2):
        log.info("late")
    lines = [json.loads(line) for line in disk.getvalue().splitlines()]

    assert ["log lines were late or lost", "late", "late"] == [line["event"] for line in lines]
    assert 3 == lines[0]["count"]


def test_lines_from_a_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """In order, and all of them before the block ends; the next line is written at once again."""
    configure_logs(LogFormat.JSON)
    log = structlog.get_logger()
    with logs_in_background():
        for number in range(100):
            log.info("ä", number=number)
    log.info("behind")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]

    assert [*range(100), None] == [line.get("number") for line in lines]
    assert {"ä", "behind"} == {line["event"] for line in lines}


def test_lines_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of lines is never held; what waits is bounded, and standard error given up."""
    monkeypatch.setattr(log_output, "FINISH_SECONDS", 0.05)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stuck:
        monkeypatch.setattr(sys, "stderr", stuck)
        configure_logs(LogFormat.JSON)
        with logs_in_background():
            for _ in range(log_output.LINES_MAX + 4_096):
                structlog.get_logger().info("x" * 64)
        with sys.stderr as given_up:
            name = given_up.name
        os.close(reader)  # the thread's writing fails now, and it ends
        for thread in threading.enumerate():
            if thread.name == "log":
                thread.join()

    assert os.devnull == name


@pytest.mark.parametrize("_time", [1, 2])
def test_a_test_leaves_its_level_to_no_other(_time: int) -> None:
    """The second time it would meet what the first has set."""
    assert not structlog.is_configured()
    log_warnings()
