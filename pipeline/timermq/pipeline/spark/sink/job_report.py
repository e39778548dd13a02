"""How a job of the sink stands: asked of the broker, and of the directories beside it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.bulk import REFUSED_ROWS_MAX, JobState

from ..errors import SparkJobError
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .published_files import PublishedFiles
from .sink_options import NAME, SinkOptions


@attrs.frozen(kw_only=True)
class JobReport:
    """What became of the rows of a job."""

    job: str
    state: str
    """``open``: not handed over; ``handed over``: being adopted; ``done``."""
    handed_over: int
    """Rows that the broker has taken."""
    adopted: int
    """Of them those that are stored for good, each for its moment."""
    refused: Mapping[str, int]
    """Rows that are not scheduled, by rule."""
    far: int = 0
    """Rows that wait in Parquet for their time to come."""
    held_up: str | None = None
    """Why the broker adopts nothing now."""
    refused_late: tuple[tuple[str, int, str, str], ...] = ()
    """Part, row, rule and remark of rows that the broker refused when it adopted them."""

    @property
    def rows(self) -> int:
        """All of them."""
        early = sum(self.refused.values()) - len(self.refused_late)
        return self.handed_over + early + self.far


def job_report(options: SinkOptions) -> JobReport:
    """Ask how a job stands.

    Args:
        options: Those that it was written with.

    Raises:
        SparkJobError: The broker does not know it, or has gone.
    """
    with BrokerLink.of(options) as link:
        job = BulkJob(link, options.job)
        status = job.known_status()
        if status is None:
            raise SparkJobError(f"{NAME}: job {options.job}: the broker knows no such job")
        page = job.status(limit=REFUSED_ROWS_MAX) if status.refused else status
    refused: dict[str, int] = {}
    far = 0
    if options.rejects is not None:
        listed = PublishedFiles(options.rejects, options.job).summary()
        refused = {} if listed is None else dict(listed.by_rule)
    if options.far is not None:
        listed = PublishedFiles(options.far, options.job).summary()
        far = 0 if listed is None else listed.rows
    for _, _, rule, _ in page.refused_rows:
        refused[rule] = refused.get(rule, 0) + 1
    return JobReport(
        job=options.job,
        state=str(status.state),
        handed_over=status.rows,
        adopted=status.adopted,
        refused=refused,
        far=far,
        held_up=status.held_up,
        refused_late=page.refused_rows,
    )


def was_handed_over(options: SinkOptions) -> bool:
    """Whether a job of this name is decided already.

    Raises:
        SparkJobError: There is no broker.
    """
    with BrokerLink.of(options) as link:
        status = BulkJob(link, options.job).known_status()
    return status is not None and status.state is not JobState.OPEN
