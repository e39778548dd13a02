"""A job that is being adopted: how far it is, and what may be written down of that."""

from __future__ import annotations

import attrs

from .block_rows import Numbers
from .bulk_job import BulkJob
from .job_notes import HandedOverNote, ProgressNote
from .refused_rows import RefusedRows


@attrs.define(eq=False)
class IngestProgress:
    """The job in hand."""

    job: BulkJob
    note: HandedOverNote
    refused_rows: RefusedRows
    row: int
    """Rows of the job below it are stored or refused."""
    refused: int
    known: Numbers
    """Rows beyond the progress that the process before has stored, ascending."""
    reached: ProgressNote
    """What a progress may say: every row below it is decided, no other one is before its place."""

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
