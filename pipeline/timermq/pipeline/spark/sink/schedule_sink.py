"""``timermq.schedule``: the sink as Spark knows it, for batches and streams.

Schema and options are looked at before anything is sent. A job that was handed over before, under
the same name with the same rows, is not done again; other rows are refused. The jobs of a stream
are its batches; they belong to its query, so that another checkpoint under the same name is refused
instead of taken for what was done already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

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
from .job_commit import abort_job, commit_job
from .published_files import PublishedFiles
from .schedule_columns import ScheduleColumns
from .schedule_task import ScheduleTask, StagedRows
from .sink_options import NAME, SinkOptions
from .window import check_window

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
"""Properties of a task of a stream."""


class ScheduleWriter(DataSourceArrowWriter):
    """A job.

    Args:
        options: Of the sink.
        columns: Of the DataFrame.
    """

    def __init__(self, options: SinkOptions, columns: ScheduleColumns) -> None:
        self.options = options
        self.columns = columns

    # The base class of the writer of rows says otherwise, as its own package notes.
    def write(  # type: ignore[override]
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Stage the rows of a partition; in an executor."""
        task = ScheduleTask(self.options, self.columns, _task().partitionId(), "")
        return task.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hand the job over, with the rows that all tasks have staged."""
        commit_job(self.options, self.columns, [_staged(one) for one in messages])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let go what was staged."""
        abort_job(self.options, cast("list[StagedRows | None]", messages))


class ScheduleStreamWriter(DataSourceStreamArrowWriter):
    """The jobs of a stream: one a batch.

    Args:
        options: Of the sink; the job names the stream.
        columns: Of the DataFrame.
    """

    def __init__(self, options: SinkOptions, columns: ScheduleColumns) -> None:
        self._options = options
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
        with BrokerLink.of(self._options) as link:
            # Open as long as the stream runs: it says whose the name is.
            BulkJob(link, self._options.job, owner=query).open()
        options = self._options.of_batch(int(batch_id))
        task = ScheduleTask(options, self._columns, context.partitionId(), query)
        return task.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Hand the job of the batch over, with the rows that all tasks have staged."""
        commit_job(
            self._options.of_batch(batchId), self._columns, [_staged(one) for one in messages]
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Let go what was staged; also called when the commit has failed."""
        staged = cast("list[StagedRows | None]", messages)
        abort_job(self._options.of_batch(batchId), staged)


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
        with BrokerLink.of(options) as link:
            opened = BulkJob(link, options.job).open()
        if opened.state is JobState.OPEN:
            _check_new(options, opened.limits)
        return ScheduleWriter(options, columns)

    def streamWriter(self, schema: types.StructType, overwrite: bool) -> ScheduleStreamWriter:
        """The stream; its tasks are the first to ask the broker.

        Raises:
            SparkJobError: A column or an option is wrong.
        """
        columns, options = self._checked(schema, overwrite=overwrite)
        return ScheduleStreamWriter(options, columns)

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


def _staged(message: WriterCommitMessage | None) -> StagedRows:
    assert isinstance(message, StagedRows)
    return message
