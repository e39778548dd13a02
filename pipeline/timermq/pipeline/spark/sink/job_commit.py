"""The driver's part of the sink: one commit, and the files that go with it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs

from timermq.remoting.bulk import JobState, JobStatus

from ..errors import SparkJobError
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .cluster import Shares
from .parquet_files import ParquetFiles, late_table
from .published_files import PublishedFiles, RunList
from .row_sum import fingerprint, shared_fingerprint
from .schedule_columns import ScheduleColumns
from .schedule_task import StagedRows
from .sink_options import NAME, SinkOptions

LATE = "late"
"""File of the rows that the broker refused when it adopted them."""


def commit_shares(
    shares: Shares, columns: ScheduleColumns, messages: Sequence[Sequence[StagedRows]]
) -> None:
    """Hand a job over to each of its brokers, then wait for all; may be repeated as ``commit_job``.

    Where one has gone, the others have theirs: a rerun with the same rows and brokers goes on.

    Args:
        shares: Of the sink; of a stream those of the batch.
        columns: Of the DataFrame.
        messages: Of all tasks, each with one of each broker.

    Raises:
        SparkJobError: As of ``commit_job``; BULK_JOB_DIFFERS also where the brokers are others.
    """
    if len(shares) == 1:
        (options,) = shares.values()
        commit_job(options, columns, [one for (one,) in messages])
        return
    for index, options in enumerate(shares.values()):
        own = [one[index] for one in messages]
        commit_job(attrs.evolve(options, wait=False), columns, own, among=tuple(shares))
    for options in shares.values():
        if options.wait:
            with BrokerLink.of(options) as link:
                job = BulkJob(link, options.job)
                _add_late(options, columns, job, job.until_done())


def commit_job(
    options: SinkOptions,
    columns: ScheduleColumns,
    messages: Sequence[StagedRows],
    *,
    among: Sequence[str] = (),
) -> None:
    """Hand a job over, unless that was done before, and publish what goes with it.

    May be repeated, by this driver or another one, and may die at any point: the hand-over is the
    one step that decides.

    Args:
        options: Of the sink; of a stream those of the batch.
        columns: Of the DataFrame.
        messages: Of all tasks.
        among: The names of all brokers that share the rows; none where it is one.

    Raises:
        SparkJobError: The broker refuses or has gone; a rerun with the same job goes on. A job that
            was handed over before with other rows is refused (BULK_JOB_DIFFERS), unless the options
            say otherwise.
    """
    rows = fingerprint(columns, (one.content for one in messages)) if options.same_rows else ""
    if among:
        rows = shared_fingerprint(rows, among)
    parts = [part for one in messages for part in one.parts]
    owner = messages[0].owner if messages else ""
    run = uuid.uuid4().hex
    with BrokerLink.of(options) as link:
        job = BulkJob(link, options.job, owner=owner)
        if any(one.is_decided for one in messages):
            status, taken = job.status(fingerprint=rows), False
            if status.state is JobState.OPEN:
                raise SparkJobError(
                    f"{NAME}: job {options.job}: expected it to be handed over, as a task has seen "
                    "it, found it open: the broker has forgotten it meanwhile; run it again"
                )
        else:
            _gather(options, messages, run, tuple(parts))
            status = job.hand_over(parts, fingerprint=rows)
            taken = status.taken
        for root in options.roots:
            PublishedFiles(root, options.job).publish(
                run if taken else None, lambda listed: job.hand_over(listed).taken
            )
        if options.wait and status.state is not JobState.DONE:
            status = job.until_done()
        _add_late(options, columns, job, status)


def _add_late(
    options: SinkOptions, columns: ScheduleColumns, job: BulkJob, status: JobStatus
) -> None:
    if status.state is JobState.DONE and status.refused and options.rejects is not None:
        PublishedFiles(options.rejects, options.job).add(
            LATE, lambda directory, name: _write_late(directory, name, job, columns)
        )


def abort_job(options: SinkOptions, messages: Sequence[StagedRows | None]) -> None:
    """Let go what tasks have staged; what was handed over is not touched.

    Args:
        options: As above.
        messages: Of all tasks; None for one that failed, which lets go by itself.
    """
    staged = [one for one in messages if one is not None and one.attempt]
    for root in options.roots:
        for one in staged:
            PublishedFiles(root, options.job).forget(one.attempt)
    names = [name for one in staged for name, _ in one.parts]
    if not names:
        return
    try:
        with BrokerLink.of(options) as link:
            BulkJob(link, options.job).drop(names)
    except SparkJobError:
        return  # the error that led here is the one to tell; the broker lets go by itself


def _write_late(directory: Path, name: str, job: BulkJob, columns: ScheduleColumns) -> None:
    files = ParquetFiles(directory, name)
    for rows in job.refused_rows():
        files.write(late_table(rows, columns.kinds))
    files.close()


def _gather(
    options: SinkOptions,
    messages: Sequence[StagedRows],
    run: str,
    parts: tuple[tuple[str, int], ...],
) -> None:
    attempts = [one.attempt for one in messages]
    by_rule: Counter[str] = Counter()
    for one in messages:
        by_rule.update(one.refused)
    if options.rejects is not None and by_rule:
        listed = RunList(parts=parts, rows=by_rule.total(), by_rule=dict(by_rule))
        PublishedFiles(options.rejects, options.job).gather(run, attempts, listed)
    far = sum(one.far for one in messages)
    if options.far is not None and far:
        listed = RunList(parts=parts, rows=far)
        PublishedFiles(options.far, options.job).gather(run, attempts, listed)
