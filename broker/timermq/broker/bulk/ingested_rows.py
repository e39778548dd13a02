"""Which rows of a job stand in the commit log: read after a start, to go on where a crash was.

Every record of a row has the row in its unique key, and rows are stored behind the position that
the job's progress names. So the log from there to its end says it all. What consumers or the wheel
have made of a row since (a delivery, a roll, a message that was sent back) bears the same key, and
stands behind the row itself: it says nothing else. A row whose own record is damaged, and of which
nothing was made, is adopted once more.
"""

from __future__ import annotations

import numpy as np
import trio
from numpy.typing import NDArray

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record_spans import record_properties

from .block_rows import row_in

SCAN_COUNT = 1_000
"""Records read between two turns of everything else: some 3 ms."""


async def ingested_rows(
    commit_log: CommitLog, *, first_py: int, tag: bytes, first: int
) -> NDArray[np.int64]:
    """The rows that are in the log, ascending.

    Args:
        commit_log: Where they are looked for, up to its end at this moment.
        first_py: None stands before.
        tag: How the unique keys of the job begin.
        first: Rows below it are not asked for.
    """
    found: set[int] = set()
    end = commit_log.max_offset
    start = max(first_py, commit_log.min_offset)
    reading = LogReading(commit_log, start, end=end, purpose="adopted rows of a bulk job")
    for number, (_, record) in enumerate(reading, 1):
        if number % SCAN_COUNT == 0:
            await trio.lowlevel.checkpoint()
        if tag not in record:
            continue
        row = row_in(find(record_properties(record), UNIQ_KEY_NAME) or b"", tag)
        if row is not None and row >= first:
            found.add(row)
    return np.array(sorted(found), np.int64)
