"""A task of the sink: it checks its rows, stages those that pass, and writes down the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from timermq.remoting.bulk import JobState
from timermq.timerstore.array_types import Places

from ..errors import BulkRefusedError, SparkJobError
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .parquet_files import ParquetFiles, far_tables, refused_table
from .part_writer import Part, PartWriter, new_attempt
from .portion import Portion, portions
from .published_files import PublishedFiles
from .row_check import CheckedRows, RowCheck
from .row_sum import NO_ROWS, RowSum, Sum
from .schedule_columns import ScheduleColumns
from .sink_options import NAME, SinkOptions
from .window import check_window


@dataclass
class StagedRows(WriterCommitMessage):
    """The message of a task's attempt to the commit."""

    attempt: str = ""
    parts: tuple[Part, ...] = ()
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """Rows by rule."""
    far: int = 0
    """Rows that are due too late for the broker."""
    is_decided: bool = False
    """The job was handed over before: nothing was staged."""
    owner: str = ""
    """Of a stream: its query."""
    content: Sum = NO_ROWS
    """Of all rows that the task was given."""


class ScheduleTask:
    """One attempt.

    Args:
        options: Of the sink; of a stream those of the batch.
        columns: Of the DataFrame.
        partition: Its number.
        owner: Of a stream: its query.
        job_ms: The moment from which delays count; None: that of the job at its broker.
    """

    def __init__(
        self,
        options: SinkOptions,
        columns: ScheduleColumns,
        partition: int,
        owner: str,
        *,
        job_ms: int | None = None,
    ) -> None:
        self._options = options
        self._columns = columns
        self._partition = partition
        self._owner = owner
        self._job_ms = job_ms
        self._attempt = new_attempt(partition)
        self._topics: dict[str, str] = {}
        """Remarks of those that were asked about; empty for one that takes messages."""
        self._refused: Counter[str] = Counter()
        self._sum = RowSum(columns)

    def run(self, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage all rows of some batches, as ``stage`` does."""
        return self.stage(portions(batches, self._columns))

    def stage(self, given: Iterator[Portion]) -> StagedRows:
        """Stage rows, up to the last.

        Raises:
            SparkJobError: A row is refused and there is no place for it, or the broker has gone;
                nothing that was staged counts.
        """
        narrow = self._counted(given)
        with BrokerLink.of(self._options) as link:
            job = BulkJob(link, self._options.job, owner=self._owner)
            opened = job.open()
            if opened.state is not JobState.OPEN:
                return self._decided(narrow)
            job_ms = opened.job_ms if self._job_ms is None else self._job_ms
            check = RowCheck(
                self._columns,
                opened.limits,
                job_ms,
                topic_refusals=lambda topics: self._topic_refusals(job, topics),
                has_far=self._options.far is not None,
            )
            latest_ms = None
            if self._options.window_ms is not None:
                check_window(self._options.window_ms, opened.limits)
                latest_ms = job_ms + self._options.window_ms
            parts = PartWriter(job, self._attempt, opened.limits)
            try:
                return self._stage(narrow, check, parts, latest_ms)
            except BaseException as error:
                self._let_go(parts)
                if isinstance(error, BulkRefusedError) and error.rule == "BULK_HANDED_OVER":
                    return self._decided(narrow)
                raise

    def _counted(self, given: Iterator[Portion]) -> Iterator[Portion]:
        """The rows, each counted when it is read, whatever becomes of it."""
        for portion in given:
            self._sum.count(portion.words)
            yield portion

    def _stage(
        self,
        narrow: Iterator[Portion],
        check: RowCheck,
        parts: PartWriter,
        latest_ms: int | None,
    ) -> StagedRows:
        rejects, far = self._files(self._options.rejects), self._files(self._options.far)
        for portion in narrow:
            checked = check.check(portion.rows)
            if checked.refused:
                self._refuse(checked, portion.places, rejects)
            near = checked.kept()
            if far is not None and latest_ms is not None:
                is_far = near & (checked.deliver_ms > latest_ms)
                for folder, table in far_tables(checked, is_far):
                    far.write(table, folder=folder)
                near &= ~is_far
            for block in checked.blocks(near):
                parts.add(block)
        for files in (rejects, far):
            if files is not None:
                files.close()
        return StagedRows(
            attempt=self._attempt,
            parts=tuple(parts.finish()),
            refused=dict(self._refused),
            far=0 if far is None else far.rows,
            owner=self._owner,
            content=self._sum.value,
        )

    def _refuse(self, checked: CheckedRows, places: Places, rejects: ParquetFiles | None) -> None:
        if rejects is None:
            row = min(checked.refused)
            raise SparkJobError(
                f"{NAME}: row {places[row]} of partition {self._partition}: "
                f"{checked.refused[row].remark}; the option rejects names a directory for such rows"
            )
        rejects.write(refused_table(checked, places, self._partition))
        self._refused.update(one.rule for one in checked.refused.values())

    def _topic_refusals(self, job: BulkJob, topics: Sequence[str]) -> dict[str, str]:
        new = [topic for topic in topics if topic not in self._topics]
        if new:
            self._topics.update(dict.fromkeys(new, "") | job.topic_refusals(new))
        return {topic: self._topics[topic] for topic in topics if self._topics[topic]}

    def _files(self, root: str | None) -> ParquetFiles | None:
        if root is None:
            return None
        return ParquetFiles(
            PublishedFiles(root, self._options.job).attempt(self._attempt), self._attempt
        )

    def _let_go(self, parts: PartWriter) -> None:
        """An attempt that fails takes with it what it has staged, as far as that is possible."""
        for root in self._options.roots:
            PublishedFiles(root, self._options.job).forget(self._attempt)
        try:
            parts.drop()
        except SparkJobError:
            return  # the broker lets it go when the job is handed over, or forgotten

    def _decided(self, narrow: Iterator[Portion]) -> StagedRows:
        """The refusal of rows of a job that was committed before."""
        for _ in narrow:  # to the last: Spark wants all of them read, and so does the sum
            pass
        return StagedRows(is_decided=True, owner=self._owner, content=self._sum.value)
