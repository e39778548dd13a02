"""The signals that stop a serving process in order."""

from __future__ import annotations

import signal
from collections.abc import Sequence

SAME_SIGNAL = 1.0
"""Seconds in which a further signal is the first once more: `timeout`, `make` and a terminal send
one to the process and one to its group."""


def stop_signals() -> Sequence[signal.Signals]:
    """The signals that stop in order; under ``nohup`` SIGHUP is not among them."""
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT, *(() if outlives_terminal else (signal.SIGHUP,)))
