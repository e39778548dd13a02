"""How many jobs may be unfinished, and how much may be staged: of an account as much as is left.

As in a ``Pool``, but counted from the jobs themselves, which outlive the process. Without access
control there are no accounts, and all that there is may be used.
"""

from __future__ import annotations

from collections.abc import Iterable

from timermq.remoting.bulk import JobState
from timermq.remoting.codes import ResponseCode

from ..pool import may_take
from ..refusal import RefusedError
from .bulk_job import BulkJob


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
