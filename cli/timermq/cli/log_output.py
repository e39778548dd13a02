"""The output of log lines: standard error, as JSON for programs or in colour for people."""

from __future__ import annotations

import contextlib
import enum
import io
import logging
import os
import queue
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import structlog
from structlog.typing import Processor

LINES_MAX = 4_096
"""Lines that wait for a slow reader; further ones are lost."""
FINISH_SECONDS = 1.0
"""For lines that are not written yet at the end."""

_log = structlog.get_logger("timermq.cli.log_output")


class LogFormat(enum.Enum):
    """How a log line looks."""

    AUTO = "auto"
    """Coloured on a terminal, JSON elsewhere."""
    CONSOLE = "console"
    JSON = "json"


class _StandardError:
    """Writes to what ``sys.stderr`` is at that moment: it may be replaced while we run.

    Neither a disk that is full of logs nor a reader of them that has gone may end a broker: what
    cannot be written is late, as far as the stream's buffer goes, and then lost. The next line that
    can be taken says how many did not go out at once.
    """

    def __init__(self) -> None:
        self._lost = 0

    def msg(self, message: str) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            _log.warning("log lines were late or lost", count=lost)
            if self._lost:
                self._lost += lost - 1
        if not self._takes(message):
            self._lost += 1

    debug = info = warning = warn = error = critical = fatal = failure = exception = log = msg

    def _takes(self, line: str) -> bool:
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except OSError:
            return False
        return True


class _LogThread(_StandardError):
    """Writes from a thread of its own, for a reader that no longer reads must not hold the caller.

    It writes to the descriptor: a lock of Python's, kept by a thread that waits for such a reader,
    would keep the process from ending.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._is_ending = False
        self._lines = queue.Queue[bytes | None](LINES_MAX)
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def finish(self) -> bool:
        """Wait a moment for what is not written yet; whether that was enough."""
        self._is_ending = True
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(FINISH_SECONDS)
        return not self._thread.is_alive()

    def _takes(self, line: str) -> bool:
        try:
            self._lines.put_nowait(line.encode(errors="backslashreplace") + b"\n")
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        while not (self._is_ending and self._lines.empty()):
            line = self._lines.get() or b""
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                self._lost += 1


_standard_error = _StandardError()


def configure_logs(log_format: LogFormat, level: int = logging.INFO) -> None:
    """Send the log lines of ``level`` and above to standard error.

    Args:
        log_format: See ``LogFormat``.
        level: A number of the logging module.
    """
    as_console = log_format is LogFormat.CONSOLE or (
        log_format is LogFormat.AUTO and sys.stderr.isatty()
    )
    structlog.configure(
        processors=_console() if as_console else _json(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _standard_error,
        cache_logger_on_first_use=False,
    )


def log_warnings() -> None:
    """Warnings and worse, as lines for people: what a verb logs unless it says otherwise."""
    configure_logs(LogFormat.CONSOLE, logging.WARNING)


@contextlib.contextmanager
def logs_in_background() -> Generator[None]:
    """Write log lines from a thread of their own for the length of a block.

    Standard error whose reader is stuck when it ends is given up, that the process can end.
    """
    try:
        thread = _LogThread(sys.stderr.fileno())
    except io.UnsupportedOperation:  # a text in memory: it has no reader that could be stuck
        yield
        return
    structlog.configure(logger_factory=lambda *_: thread)
    try:
        yield
    finally:
        structlog.configure(logger_factory=lambda *_: _standard_error)
        if not thread.finish():
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends


def _console() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _json() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # may hold a secret
        ),
        structlog.processors.JSONRenderer(),
    ]
