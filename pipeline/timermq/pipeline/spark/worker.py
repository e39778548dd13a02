"""Spark's Python processes: what they keep from one task to the next."""

from __future__ import annotations

import gc
from functools import cache


@cache
def keep_imports() -> None:
    """Leave what a process has made so far, its modules above all, out of all its collections.

    PySpark's worker collects everything after each task (``pyspark.daemon.manager``), and what it
    looks through are the modules of PySpark, pyarrow and numpy: 90 ms a task, of which the rows of
    a small table take five. To be called by whatever Spark calls first in a process; what a task
    makes later is collected as ever.
    """
    gc.freeze()
