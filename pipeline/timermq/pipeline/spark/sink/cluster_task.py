"""A task of a job that several brokers share: a task for each broker, side by side.

One thread reads Spark's rows and hands each broker's to a thread of its own, a few portions ahead.
An attempt ends as a whole: where one broker's part fails, those of the others are let go.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from ..errors import SparkJobError
from .broker_link import BrokerLink
from .bulk_job import BulkJob
from .cluster import Shares
from .job_commit import abort_job
from .portion import Portion, portions
from .schedule_columns import ScheduleColumns
from .schedule_task import ScheduleTask, StagedRows
from .sink_options import NAME, SinkOptions

PORTIONS_AHEAD = 2
"""Portions that wait for a broker: with those at work, three batches of Spark's are in memory."""
LOOK_SECONDS = 0.1
"""Between two looks whether a thread that takes no more rows has ended."""


@dataclass
class StagedShares(WriterCommitMessage):
    """The message of a task's attempt to the commit: one of each broker, in their order."""

    shares: tuple[StagedRows, ...] = ()


def run_task(
    shares: Shares,
    columns: ScheduleColumns,
    partition: int,
    owner: str,
    batches: Iterator[pa.RecordBatch],
) -> StagedShares:
    """Stage the rows of a partition, each at its broker.

    Args:
        shares: Of the job; of a stream those of the batch.
        columns: Of the DataFrame.
        partition: Its number.
        owner: Of a stream: its query.
        batches: As Spark hands them over.

    Raises:
        SparkJobError: As of ``ScheduleTask.stage``; nothing that was staged counts.
    """
    each = list(shares.values())
    if len(each) == 1:
        task = ScheduleTask(each[0], columns, partition, owner)
        return StagedShares((task.run(batches),))
    job_ms = min(_job_ms(options, owner) for options in each)
    tasks = [ScheduleTask(options, columns, partition, owner, job_ms=job_ms) for options in each]
    with ThreadPoolExecutor(len(tasks)) as pool:
        feeds = [_Feed(pool, task.stage) for task in tasks]
        try:
            for portion in portions(batches, columns):
                for index, feed in enumerate(feeds):
                    feed.put(portion.share(index, len(feeds)))
            for feed in feeds:
                feed.put(None)
            return StagedShares(tuple(feed.ended.result() for feed in feeds))
        except BaseException:
            _let_go(feeds, each)
            raise


def _job_ms(options: SinkOptions, owner: str) -> int:
    """The moment of the job at one broker; the earliest counts, so that delays are the same."""
    with BrokerLink.of(options) as link:
        return BulkJob(link, options.job, owner=owner).open().job_ms


class _Feed:
    """The rows for one broker, on their way to its thread.

    Args:
        pool: Has a thread for it.
        stage: The work of the thread.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        stage: Callable[[Iterator[Portion]], StagedRows],
    ) -> None:
        self._waiting: queue.Queue[Portion | SparkJobError | None] = queue.Queue(PORTIONS_AHEAD)
        self.ended = pool.submit(stage, iter(self._taken, None))

    def put(self, given: Portion | SparkJobError | None) -> None:
        """Hand rows over, or the end, or a reason to fail.

        Raises:
            SparkJobError: The thread has failed before.
        """
        while True:
            if self.ended.done():
                self.ended.result()
                return
            try:
                return self._waiting.put(given, timeout=LOOK_SECONDS)
            except queue.Full:
                continue

    def _taken(self) -> Portion | None:
        found = self._waiting.get()
        if isinstance(found, SparkJobError):
            raise found
        return found


def _let_go(feeds: Sequence[_Feed], each: Sequence[SinkOptions]) -> None:
    """End all threads; those that had staged all of their rows abort their jobs."""
    failed = SparkJobError(f"{NAME}: expected all brokers to take their rows, found one that fails")
    for feed, options in zip(feeds, each, strict=True):
        with suppress(Exception):  # the first failure is the one to tell
            feed.put(failed)
            abort_job(options, [feed.ended.result()])
