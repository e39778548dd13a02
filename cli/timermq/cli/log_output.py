"""Where log lines go: standard error, as JSON for programs or in colour for people."""

from __future__ import annotations

import enum
import logging
import sys

import structlog
from structlog.typing import Processor

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
    can be written says how many did not go out at once.
    """

    def __init__(self) -> None:
        self._lost = 0

    def msg(self, message: str) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            _log.warning("log lines were late or lost", count=lost)
            if self._lost:
                self._lost += lost - 1
        try:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
        except OSError:
            self._lost += 1

    debug = info = warning = warn = error = critical = fatal = failure = exception = log = msg


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


def _console() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
    ]


def _json() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.dict_tracebacks,
        structlog.processors.JSONRenderer(),
    ]
