"""How a job of the sink stands: asked of the broker, and of the directories beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from timermq.remoting.bulk import JobState

from ..errors import SparkJobError
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .cluster import shares_of
from .published_files import PublishedFiles
from .sink_options import NAME, SinkOptions


@attrs.frozen(kw_only=True)
class JobReport:
    """The counts of a job's rows by outcome."""

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
    refused_late: int = 0
    """Of the refused ones those that the broker refused when it adopted them."""

    @property
    def rows(self) -> int:
        """Number of all rows: handed over, refused before that, or far."""
        early = sum(self.refused.values()) - self.refused_late
        return self.handed_over + early + self.far


def job_report(options: SinkOptions) -> JobReport:
    """Ask how a job stands, all its brokers where there are several.

    Args:
        options: Those that it was written with.

    Raises:
        SparkJobError: A broker does not know it, or has gone.
    """
    found = [_report_of(one) for one in shares_of(options).values()]
    states = [one.state for one in found]
    refused = Counter[str]()
    for one in found:
        refused.update(one.refused)
    return JobReport(
        job=options.job,
        state=next(str(state) for state in JobState if state in states),
        handed_over=sum(one.handed_over for one in found),
        adopted=sum(one.adopted for one in found),
        refused=dict(refused),
        far=sum(one.far for one in found),
        held_up=next((one.held_up for one in found if one.held_up is not None), None),
        refused_late=sum(one.refused_late for one in found),
    )


def _report_of(options: SinkOptions) -> JobReport:
    """Ask one broker.

    Raises:
        SparkJobError: The broker does not know it, or has gone.
    """
    with BrokerLink.of(options) as link:
        job = BulkJob(link, options.job)
        status = job.known_status()
        if status is None:
            raise SparkJobError(f"{NAME}: job {options.job}: the broker knows no such job")
        pages = job.refused_rows() if status.refused else ()
        late = Counter(rule for rows in pages for _, _, rule, _ in rows)
    refused = Counter(late)
    far = 0
    if options.rejects is not None:
        listed = PublishedFiles(options.rejects, options.job).summary()
        refused.update({} if listed is None else listed.by_rule)
    if options.far is not None:
        listed = PublishedFiles(options.far, options.job).summary()
        far = 0 if listed is None else listed.rows
    return JobReport(
        job=options.job,
        state=str(status.state),
        handed_over=status.rows,
        adopted=status.adopted,
        refused=dict(refused),
        far=far,
        held_up=status.held_up,
        refused_late=late.total(),
    )


def was_handed_over(options: SinkOptions) -> bool:
    """Whether a job of this name is decided already, at all its brokers.

    Raises:
        SparkJobError: There is no broker.
    """
    return all(map(_was_handed_over_to, shares_of(options).values()))


def _was_handed_over_to(options: SinkOptions) -> bool:
    with BrokerLink.of(options) as link:
        status = BulkJob(link, options.job).known_status()
    return status is not None and status.state is not JobState.OPEN
