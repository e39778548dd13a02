"""Errors of a job as one line."""

from __future__ import annotations

from timermq.pipeline.spark import cause_of

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "source.py", line 70, in partitions
    view = StoreView.of(self.options.path)
timermq.pipeline.spark.errors.SparkJobError: timermq.wheel: option 'x': expected one of path

\tat org.apache.spark.sql.errors.QueryCompilationErrors$.pythonDataSourceError
"""


def test_an_error_of_ours_in_a_worker() -> None:
    """Its own words are taken out of the trace."""
    assert cause_of(RuntimeError(TRACE)) == "timermq.wheel: option 'x': expected one of path"


def test_any_other_error() -> None:
    """A bug keeps its trace."""
    assert cause_of(RuntimeError("ZeroDivisionError: division by zero")) is None
