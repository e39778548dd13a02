"""The files of a job, each of which is replaced in one step.

==============  ===================================================================================
``job``         the job is known, and its moment
``handed_over`` the commit: its parts are decided, and this file is the atomic step
``progress``    how far its rows are ingested; with ``done_ms``, that it is done
==============  ===================================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs

JOB = "job"
COMMIT = "handed_over"
PROGRESS = "progress"
REFUSED = "refused"
"""The rows that were refused, see ``refused_rows``."""


@attrs.frozen(kw_only=True)
class JobNote:
    """The opening of a job: ``job``."""

    job_ms: int
    """When it was opened first, epoch milliseconds: delays count from it."""
    owner: str = ""
    """The stream that owns it; empty: any driver that knows its name."""
    account: str = ""
    """The account that has opened it; empty without access control, and of administrators."""


@attrs.frozen(kw_only=True)
class CommitNote:
    """The commit of a job: ``handed_over``."""

    parts: tuple[tuple[str, int], ...]
    """Names and rows, in the order in which they are ingested."""
    topics: tuple[str, ...]
    handed_ms: int
    """When, epoch milliseconds: jobs are ingested in this order."""
    born_host: bytes
    """Address of the driver that committed, as records hold it."""
    fingerprint: str = ""
    """Fingerprint of the rows, as the driver has stated it; empty: it has stated none."""
    log_py: int | None = None
    """No row of the job stands before it in the commit log: the rows are looked for from here where
    the progress is missing. None: an older version has committed."""

    @property
    def rows(self) -> int:
        """Number of rows in all parts."""
        return sum(rows for _, rows in self.parts)


@attrs.frozen(kw_only=True)
class ProgressNote:
    """``progress``: written before the first row is stored, and only of durable rows.

    Where it is missing no row of the job is in the log, unless the file was lost.
    """

    row: int
    """Rows of the job below it are stored or refused."""
    log_py: int
    """Position in the commit log: stored rows from ``row`` on are not before it."""
    refused: int = 0
    """Number of refused rows below ``row``."""
    refused_size: int = 0
    """Bytes of the file ``refused`` that count."""
    done_ms: int | None = None
    """When all was done, epoch milliseconds."""
    parts_digest: bytes = b""
    """Digest of the parts of a job that is done, whose ``handed_over`` is gone."""
    topics: tuple[str, ...] = ()
    """Of a job that is done."""
    fingerprint: str = ""
    """Of a job that is done."""


def parts_digest(parts: Sequence[tuple[str, int]]) -> bytes:
    """A digest of the parts; their order does not count."""
    return hashlib.blake2b(repr(sorted(parts)).encode(), digest_size=16).digest()


def job_tag(name: str, job_ms: int) -> str:
    """16 hexadecimal digits: how the unique keys of a job's rows begin.

    A job that was forgotten, and is opened again under its name, has another one.
    """
    return hashlib.blake2b(f"{name} {job_ms}".encode(), digest_size=8).hexdigest().upper()
