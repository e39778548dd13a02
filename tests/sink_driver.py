"""The sink without Spark: tasks and commit of small jobs, and drivers that die inside the commit.

Run: ``python -m sink_driver DIRECTORY HOST:PORT``: for each point of ``POINTS`` a driver is killed
there, and two others come after it with the same job.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from timermq.pipeline.spark.sink import SinkOptions
from timermq.pipeline.spark.sink.broker_link import BrokerLink
from timermq.pipeline.spark.sink.bulk_job import BulkJob
from timermq.pipeline.spark.sink.job_commit import commit_job
from timermq.pipeline.spark.sink.published_files import PublishedFiles
from timermq.pipeline.spark.sink.schedule_columns import ScheduleColumns
from timermq.pipeline.spark.sink.schedule_task import ScheduleTask, StagedRows
from timermq.remoting import Command, FrameConnection, RequestCode

HOUR_MS = 3_600_000
NEAR, BAD, FAR = 20, 3, 5
"""Rows of each of the two tasks: for the broker, refused ones, and for years ahead."""
PARTITIONS = 2
COLUMNS = ScheduleColumns.of(
    [("topic", "string"), ("body", "binary"), ("delay_ms", "long"), ("key", "string")]
)


def options_for(job: str, directory: str, broker: str) -> SinkOptions:
    """A job whose rows go to a topic of its own, with places for all others."""
    return SinkOptions(
        broker=broker,
        job=job,
        rejects=f"{directory}/rejects",
        far=f"{directory}/far",
        window_ms=24 * HOUR_MS,
    )


def staged(options: SinkOptions) -> list[StagedRows]:
    """What the tasks of the job tell its commit."""
    return [
        ScheduleTask(options, COLUMNS, partition, "").run(iter([batch_of(options.job, partition)]))
        for partition in range(PARTITIONS)
    ]


def batch_of(topic: str, partition: int) -> pa.RecordBatch:
    """The rows of a task."""
    delays = [HOUR_MS] * NEAR + [-1] * BAD + [1000 * HOUR_MS] * FAR
    keys = [f"{partition}-{row}" for row in range(len(delays))]
    arrow: Any = pa
    batch: pa.RecordBatch = arrow.RecordBatch.from_pydict(
        {
            "topic": [topic] * len(delays),
            "body": [key.encode() for key in keys],
            "delay_ms": delays,
            "key": keys,
        }
    )
    return batch


def near_keys() -> list[str]:
    """Keys of the rows that the broker is to have."""
    return [f"{partition}-{row}" for partition in range(PARTITIONS) for row in range(NEAR)]


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before_the_commit() -> None:
    _die()


def _before_the_hand_over() -> None:
    BulkJob.hand_over = _die  # type: ignore[assignment,method-assign]  # it does not return


def _inside_the_hand_over() -> None:
    """The request has left; the answer is not read."""
    exchange: Callable[[BrokerLink, Command], Command] = BrokerLink._exchange  # pyright: ignore[reportPrivateUsage]

    def dying(self: BrokerLink, command: Command) -> Command:
        if command.code == RequestCode.BULK_COMMIT:
            FrameConnection.next_event = _die  # type: ignore[assignment,method-assign]  # the same
        return exchange(self, command)

    BrokerLink._exchange = dying  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]


def _behind_the_hand_over() -> None:
    PublishedFiles.publish = _die  # type: ignore[method-assign]  # it does not return


def _behind_the_publishing() -> None:
    BulkJob.until_done = _die  # type: ignore[assignment,method-assign]  # it does not return


POINTS: dict[str, Callable[[], None]] = {
    "before_the_commit": _before_the_commit,
    "before_the_hand_over": _before_the_hand_over,
    "inside_the_hand_over": _inside_the_hand_over,
    "behind_the_hand_over": _behind_the_hand_over,
    "behind_the_publishing": _behind_the_publishing,
}
"""Where a driver dies, which is the name of its job too."""


def main(directory: str, broker: str) -> None:
    """Let drivers die, and others come after them."""
    for point, prepare in POINTS.items():
        options = options_for(point, directory, broker)
        child = os.fork()
        if child == 0:
            messages = staged(options)
            prepare()
            commit_job(options, COLUMNS, messages)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"{point}: expected a driver that was killed, found status {status}")
        for _ in range(2):
            commit_job(options, COLUMNS, staged(options))


if __name__ == "__main__":
    main(*sys.argv[1:])
