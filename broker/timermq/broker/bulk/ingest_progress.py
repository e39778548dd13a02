"""How far the rows of a job are ingested: as its progress says, and as the commit log shows.

Every record of a row has the row in its unique key, and rows are stored behind the position that
the job's progress names. So the log from there to its end has them all. Later records of a row (a
delivery, a roll, a message that was sent back) have the same key and stand behind the row itself:
they add nothing. A row whose own record is damaged, and of which nothing was made, is ingested once
more.
"""

from __future__ import annotations

import attrs
import numpy as np
import trio
from numpy.typing import NDArray

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record_spans import record_properties

from .block_rows import Numbers, row_in
from .bulk_job import BulkJob
from .job_notes import CommitNote, ProgressNote
from .refused_rows import RefusedRows

SCAN_COUNT = 1_000
"""Records read between two turns of everything else: some 3 ms."""


@attrs.define(eq=False)
class IngestProgress:
    """How far the job in hand is."""

    job: BulkJob
    note: CommitNote
    refused_rows: RefusedRows
    row: int
    """Rows of the job below it are stored or refused."""
    refused: int
    known: Numbers
    """Rows beyond the progress that the process before has stored, ascending."""
    reached: ProgressNote
    """The next progress to write: rows below it are decided, no other is before its place."""

    def reach(self, end_py: int) -> None:
        """Rows up to here are decided: to be called where none of a later block is stored.

        As long as rows follow that the process before has stored, the log is to be read from
        where it was: they stand before its end.

        Args:
            end_py: End of the log.
        """
        is_known_later = bool(len(self.known)) and int(self.known[-1]) >= self.row
        self.reached = ProgressNote(
            row=self.row,
            log_py=self.reached.log_py if is_known_later else end_py,
            refused=self.refused,
            refused_size=self.refused_rows.size,
        )


async def ingested_rows(
    commit_log: CommitLog, *, first_py: int, tag: bytes, first: int
) -> NDArray[np.int64]:
    """The rows that are in the log, ascending.

    Args:
        commit_log: Where they are looked for, up to its end at this moment.
        first_py: No row of the job is before it.
        tag: How the unique keys of the job begin.
        first: Rows below it are not asked for.
    """
    found: set[int] = set()
    end = commit_log.max_offset
    start = max(first_py, commit_log.min_offset)
    reading = LogReading(commit_log, start, end=end, purpose="ingested rows of a bulk job")
    for number, (_, record) in enumerate(reading, 1):
        if number % SCAN_COUNT == 0:
            await trio.lowlevel.checkpoint()
        if tag not in record:
            continue
        row = row_in(find(record_properties(record), UNIQ_KEY_NAME) or b"", tag)
        if row is not None and row >= first:
            found.add(row)
    return np.array(sorted(found), np.int64)
