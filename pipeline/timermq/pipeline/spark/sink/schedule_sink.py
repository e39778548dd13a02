"""``timermq.schedule``: the sink as Spark knows it, for batches and streams.

Schema and options are looked at before anything is sent. A job that was handed over before, under
the same name with the same rows, is not done again; other rows are refused. The jobs of a stream
are its batches; they belong to its query, so that another checkpoint under the same name is refused
instead of taken for what was done already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from timermq.remoting.bulk import BulkLimits, JobState

from ..errors import SparkJobError
from ..worker import keep_imports
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .cluster import Shares, shares_of
from .cluster_task import StagedShares, run_task
from .job_commit import abort_job, commit_shares
from .published_files import PublishedFiles
from .schedule_columns import ScheduleColumns
from .schedule_task import StagedRows
from .sink_options import NAME, SinkOptions
from .window import check_window

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
"""Properties of a task of a stream."""


class ScheduleWriter(DataSourceArrowWriter):
    """A job.

    Args:
        shares: The options of each broker.
        columns: Of the DataFrame.
    """

    def __init__(self, shares: Shares, columns: ScheduleColumns) -> None:
        self.shares = shares
        self.columns = columns

    # The base class of the writer of rows says otherwise, as its own package notes.
    def write(  # type: ignore[override]
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Stage the rows of a partition; in an executor."""
        return run_task(self.shares, self.columns, _task().partitionId(), "", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hand the job over, with the rows that all tasks have staged."""
        commit_shares(self.shares, self.columns, [_staged(one) for one in messages])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let go what was staged."""
        _abort(self.shares, messages)


class ScheduleStreamWriter(DataSourceStreamArrowWriter):
    """The jobs of a stream: one a batch.

    Args:
        shares: The options of each broker; the job names the stream.
        columns: Of the DataFrame.
    """

    def __init__(self, shares: Shares, columns: ScheduleColumns) -> None:
        self._shares = shares
        self._columns = columns

    # The base class of the writer of rows says otherwise, as its own package notes.
    def write(  # type: ignore[override]
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Stage the rows of a partition of a batch; in an executor."""
        context = _task()
        batch_id, query = context.getLocalProperty(_BATCH_ID), context.getLocalProperty(_QUERY_ID)
        if batch_id is None or query is None:
            raise SparkJobError(f"{NAME}: expected a task of a stream, found none")
        for options in self._shares.values():
            with BrokerLink.of(options) as link:
                # Open as long as the stream runs: it says whose the name is.
                BulkJob(link, options.job, owner=query).open()
        shares = self._of_batch(int(batch_id))
        return run_task(shares, self._columns, context.partitionId(), query, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Hand the job of the batch over, with the rows that all tasks have staged."""
        shares = self._of_batch(batchId)
        commit_shares(shares, self._columns, [_staged(one) for one in messages])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Let go what was staged; also called when the commit has failed."""
        _abort(self._of_batch(batchId), messages)

    def _of_batch(self, batch_id: int) -> Shares:
        return {name: options.of_batch(batch_id) for name, options in self._shares.items()}


class ScheduleSink(DataSource):
    """The sink ``timermq.schedule``, as a data source of Spark."""

    @classmethod
    def name(cls) -> str:
        """The name that ``df.write.format`` takes."""
        return NAME

    def schema(self) -> str:
        """There is nothing to be read.

        Raises:
            SparkJobError: Always.
        """
        raise SparkJobError(f"{NAME}: expected df.write or df.writeStream: it cannot be read")

    def writer(self, schema: types.StructType, overwrite: bool) -> ScheduleWriter:
        """The job, open at the broker.

        Raises:
            SparkJobError: A column or an option is wrong, the window is wider than what the broker
                takes, or there is no broker.
        """
        columns, options = self._checked(schema, overwrite=overwrite)
        shares = shares_of(options)
        for one in shares.values():
            with BrokerLink.of(one) as link:
                opened = BulkJob(link, one.job).open()
            if opened.state is JobState.OPEN:
                _check_new(one, opened.limits)
        return ScheduleWriter(shares, columns)

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> ScheduleStreamWriter:
        """The stream; its tasks are the first to ask a broker.

        Raises:
            SparkJobError: A column or an option is wrong, or there is no name server.
        """
        columns, options = self._checked(schema, overwrite=overwrite)
        return ScheduleStreamWriter(shares_of(options), columns)

    def _checked(
        self, schema: types.StructType, *, overwrite: bool
    ) -> tuple[ScheduleColumns, SinkOptions]:
        columns = ScheduleColumns.of(
            (one.name, one.dataType.simpleString()) for one in schema.fields
        )
        if overwrite:
            raise SparkJobError(f'{NAME}: mode: expected "append", found "overwrite"')
        return columns, SinkOptions.parse(self.options)


def _check_new(options: SinkOptions, limits: BulkLimits) -> None:
    """Refuse a job that is not handed over yet where the broker, or what lies there, forbids it."""
    if options.window_ms is not None:
        check_window(options.window_ms, limits)
    for root in options.roots:
        published = PublishedFiles(root, options.job).published
        if published.exists():
            raise SparkJobError(
                f"{NAME}: {published}: expected nothing of job {options.job}, found what an "
                "earlier job of this name has left: name this one differently"
            )


def _task() -> TaskContext:
    keep_imports()
    context = TaskContext.get()
    if context is None:
        raise SparkJobError(f"{NAME}: expected to run in a task of Spark, found none")
    return context


def _staged(message: WriterCommitMessage | None) -> tuple[StagedRows, ...]:
    assert isinstance(message, StagedShares)
    return message.shares


def _abort(shares: Shares, messages: Sequence[WriterCommitMessage | None]) -> None:
    staged = [None if one is None else _staged(one) for one in messages]
    for index, options in enumerate(shares.values()):
        abort_job(options, [None if one is None else one[index] for one in staged])
