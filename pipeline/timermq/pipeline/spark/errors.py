"""What can go wrong in a job, as one line for whoever typed the command."""

from __future__ import annotations

import re

from timermq.timerstore.errors import StoreError


class SparkJobError(StoreError):
    """A job cannot be done like this; the message names the option, the column or the row."""


class NoSparkError(SparkJobError):
    """Spark cannot start on this machine; the message says what to install."""


_FROM_PYTHON = re.compile(
    r"^(?:[\w.]+\.)?(?:SparkJobError|NoStoreError|Store\w*Error): (.+)$", re.M
)
"""How an error of ours ends the trace of a Python process."""


def cause_of(error: BaseException) -> str | None:
    """What an error of ours said that was raised in one of Spark's Python processes.

    Spark hands it on as text: the trace of that process, its last line the error.

    Returns:
        That line without the name of the class; None when it is not one of ours.
    """
    found: list[str] = _FROM_PYTHON.findall(str(error))
    return found[-1].strip() if found else None
