"""What can go wrong in a job, as one line for whoever typed the command."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

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
    """What went wrong in one line, if it is the caller's to mend.

    An error of ours that was raised in one of Spark's Python processes is handed on as text: the
    trace of that process, its last line the error. What Spark itself refuses (an expression, a
    path) says so in its first line.

    Returns:
        The line without the name of the class; None for anything else, which keeps its trace.
    """
    found: list[str] = _FROM_PYTHON.findall(str(error))
    if found:
        return found[-1].strip()
    if isinstance(error, PySparkException) and error.getCondition():
        return str(error).strip().partition("\n")[0]
    return None
