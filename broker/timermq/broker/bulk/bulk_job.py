"""One job: its parts while it is open, the commit, and how far its rows are ingested.

How many jobs may be unfinished and how much may be staged is shared as in a ``Pool``: an account
gets as much as is left for others. It is counted from the jobs themselves, which outlive the
process. Without access control there are no accounts, and one driver may use all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import trio

from timermq.remoting.bulk import JobState, JobStatus
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.disk import Disk

from ..pool import may_take
from ..refusal import RefusedError
from .durable_note import load_note
from .job_notes import (
    COMMIT,
    JOB,
    PROGRESS,
    REFUSED,
    CommitNote,
    JobNote,
    ProgressNote,
    job_tag,
    parts_digest,
)
from .refused_rows import RefusedRows
from .staged_part import STAGING, WHOLE, StagedPart, whole_part


@attrs.define(eq=False, kw_only=True)
class BulkJob:
    """A job, from its opening until it is forgotten."""

    name: str
    directory: str
    job_ms: int
    owner: str = ""
    account: str = ""
    """The account that has opened it, see ``JobNote``."""
    used_ms: int
    """Epoch milliseconds of the last request for it."""
    parts: dict[str, StagedPart] = attrs.Factory(dict[str, StagedPart])
    commit: CommitNote | None = None
    """None while the job is open, and again when it is done."""
    progress: ProgressNote | None = None
    """As the disk has it."""
    was_found: bool = False
    """An earlier process has left it: the log may have rows beyond its progress."""
    retry_error: str | None = None
    """Why rows are retried with backoff now; None while the store takes them."""
    lock: trio.Lock = attrs.Factory(trio.Lock)
    """Held while something of the job is made durable."""

    @classmethod
    def load(cls, disk: Disk, directory: str, name: str) -> BulkJob | None:
        """The job in a directory; None when there is none, or it was forgotten.

        Raises:
            StoreFormatError: A file of it cannot be read.
        """
        note = load_note(disk, f"{directory}/{JOB}", JobNote)
        if note is None:
            return None
        job = cls(
            name=name,
            directory=directory,
            job_ms=note.job_ms,
            owner=note.owner,
            account=note.account,
            used_ms=note.job_ms,
            was_found=True,
        )
        job.progress = load_note(disk, f"{directory}/{PROGRESS}", ProgressNote)
        if job.state is JobState.DONE:
            return job
        job.commit = load_note(disk, f"{directory}/{COMMIT}", CommitNote)
        for file in disk.list_dir(directory):
            part = file.removesuffix(WHOLE)
            if part != file:
                job.parts[part] = whole_part(disk, f"{directory}/{part}")
                changed_ms = disk.modified_ms(f"{directory}/{file}")
                job.used_ms = max(job.used_ms, changed_ms)
        return job

    @property
    def state(self) -> JobState:
        """How far it is: open, committed or done."""
        if self.progress is not None and self.progress.done_ms is not None:
            return JobState.DONE
        return JobState.OPEN if self.commit is None else JobState.COMMITTED

    @property
    def tag(self) -> str:
        """How the unique keys of its rows begin."""
        return job_tag(self.name, self.job_ms)

    @property
    def staged_size(self) -> int:
        """Bytes of its parts on the disk."""
        return sum(part.size for part in self.parts.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of its rows, as far as they are decided."""
        note = self.commit or self.progress
        return () if note is None else note.topics

    @property
    def scan_py(self) -> int | None:
        """From where on its rows stand in the log; None: there is none to be looked for."""
        if self.commit is None or self.progress is None:
            return None
        return self.progress.log_py

    def path(self, name: str) -> str:
        """Path of a file in the job's directory."""
        return f"{self.directory}/{name}"

    def refused_rows(self, disk: Disk) -> RefusedRows:
        """The rows that were refused, as far as they are durable."""
        size = 0 if self.progress is None else self.progress.refused_size
        return RefusedRows(disk, self.path(REFUSED), size)

    def is_made_of(self, parts: tuple[tuple[str, int], ...]) -> bool:
        """Whether these are the parts that were committed."""
        if self.commit is not None:
            return parts_digest(self.commit.parts) == parts_digest(parts)
        return self.progress is not None and self.progress.parts_digest == parts_digest(parts)

    def check_fingerprint(self, found: str) -> None:
        """Compare the fingerprint of rows with the committed one; where either is empty it passes.

        Raises:
            RefusedError: They are others (29).
        """
        note = self.commit or self.progress
        expected = "" if note is None else note.fingerprint
        if expected and found and expected != found:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "BULK_JOB_DIFFERS",
                f"job {self.name} was committed before with other rows: expected fingerprint "
                f"{expected}, found {found}; nothing of these is scheduled: give them a job of "
                "another name",
            )

    def status(self) -> JobStatus:
        """The answer to BULK_STATUS; rows count from the commit on."""
        progress = self.progress or ProgressNote(row=0, log_py=0)
        rows = progress.row if self.commit is None else self.commit.rows
        return JobStatus(
            state=self.state,
            job_ms=self.job_ms,
            rows=rows,
            adopted=progress.row - progress.refused,
            refused=progress.refused,
            held_up=self.retry_error,
        )

    def clean(self, disk: Disk) -> None:
        """Remove what does not count: unfinished parts, and those that were not committed."""
        kept: set[str] = set()
        if self.state is JobState.OPEN:
            kept = set(self.parts)
        elif self.commit is not None:
            kept = {part for part, _ in self.commit.parts}
        for name in [name for name in self.parts if name not in kept]:
            del self.parts[name]
        for file in disk.list_dir(self.directory):
            is_left = file.endswith((STAGING, ".tmp")) or (
                file.endswith(WHOLE) and file.removesuffix(WHOLE) not in kept
            )
            if is_left or (file == COMMIT and self.state is JobState.DONE):
                disk.remove(self.path(file))


def check_jobs(jobs: Iterable[BulkJob], count_max: int, account: str) -> None:
    """Refuse a further job.

    Raises:
        RefusedError: There is no room for it (2).
    """
    active = [job for job in jobs if job.state is not JobState.DONE]
    left = count_max - len(active)
    mine = sum(job.account == account for job in active)
    if left <= 0 or (account and not may_take(mine, left)):
        raise RefusedError(
            ResponseCode.SYSTEM_BUSY,
            "BULK_JOBS_MAX",
            f"expected at most {count_max} jobs that are not done, of an account as many as are "
            f"left for others, found {len(active)}, {mine} of this one",
        )


def check_staged(jobs: Iterable[BulkJob], size_max: int, account: str, size: int) -> None:
    """Refuse a further block.

    Raises:
        RefusedError: There is no room for its bytes (2).
    """
    sizes = [(job.account, job.staged_size) for job in jobs]
    left = size_max - sum(staged for _, staged in sizes)
    mine = sum(staged for owner, staged in sizes if owner == account)
    if size > left or (account and not may_take(mine, left)):
        raise RefusedError(
            ResponseCode.SYSTEM_BUSY,
            "BULK_STAGED_MAX",
            f"expected at most {size_max} bytes in all parts, of an account as many as are left "
            f"for others, found {size_max - left}, {mine} of this one, and {size} more",
        )
