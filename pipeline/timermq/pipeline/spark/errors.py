"""The errors of a job, as one line for the user of the command."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from timermq.timerstore.errors import StoreError


class SparkJobError(StoreError):
    """A job cannot be done like this; the message names the option, the column or the row."""


class BulkRefusedError(SparkJobError):
    """A broker refused what a job asked for; the one who runs the job repairs it.

    Args:
        text: Which broker, what was asked, and the remark.
        remark: The broker's own words, its rule first.
    """

    def __init__(self, text: str, remark: str) -> None:
        super().__init__(text, remark)
        self.text = text
        self.remark = remark

    def __str__(self) -> str:
        return self.text

    @property
    def rule(self) -> str:
        """The rule's name, if the remark begins with one; else empty."""
        head, mark, _ = self.remark.partition(":")
        return head if mark and head.isupper() else ""


class NoSparkError(SparkJobError):
    """Spark cannot start on this machine; the message says what to install."""


_FROM_PYTHON = re.compile(
    r"^(?:[\w.]+\.)?(?:SparkJobError|BulkRefusedError|NoStoreError|Store\w*Error): (.+)$", re.M
)
"""How an error of ours ends the trace of a Python process."""
_NO_FILES = "UNABLE_TO_INFER_SCHEMA"
"""Spark's condition for a directory of nothing; it would have a schema named by hand."""


def cause_of(error: BaseException) -> str | None:
    """The error in one line, if it is the caller's to repair.

    An error of ours that was raised in one of Spark's Python processes is handed on as text: the
    trace of that process, its last line the error. What Spark itself refuses (an expression, a
    path) says so in its first line.

    Returns:
        The line without the name of the class; None for anything else, which keeps its trace.
    """
    found: list[str] = _FROM_PYTHON.findall(str(error))
    if found:
        return found[-1].strip()
    if isinstance(error, PySparkException) and (condition := error.getCondition()):
        if condition == _NO_FILES:
            return "expected files to read, found none"
        return str(error).strip().partition("\n")[0]
    return None
