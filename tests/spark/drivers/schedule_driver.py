"""A driver of the sink that stands still inside its hand-over, to be killed there.

``python -m spark.drivers.schedule_driver BROKER JOB MARK``: when the request that hands the job
over has left, and before its answer is read, it makes ``MARK``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.datasource import WriterCommitMessage

from spark.conftest import SETTINGS
from timermq.pipeline.spark import spark_session
from timermq.pipeline.spark.sink import ScheduleSink, SinkOptions
from timermq.pipeline.spark.sink.broker_link import BrokerLink
from timermq.pipeline.spark.sink.schedule_sink import ScheduleWriter
from timermq.remoting import Command, FrameConnection, RequestCode

NAME = "timermq.interrupted"
COUNT = 400


def rows(spark: SparkSession, topic: str) -> DataFrame:
    """The rows of the job, in two partitions, due in an hour."""
    return spark.range(0, COUNT, 1, 2).selectExpr(
        f"'{topic}' topic", "string(id) body", "3600000L delay_ms", "string(id) key"
    )


def hand_over(spark: SparkSession, options: SinkOptions, topic: str) -> None:
    """Write the rows into the sink that is interrupted."""
    writer = rows(spark, topic).write.format(NAME).mode("append")
    writer.options(**options.to_options()).save()


def interrupted(mark: str, *, is_killed: bool) -> type[ScheduleSink]:
    """The sink, but that its first commit ends when its request has left.

    Args:
        mark: A file that is made at that moment; once it is there, nothing is interrupted.
        is_killed: The process of the commit is killed; else it stands still.
    """

    def end(_: FrameConnection) -> None:
        Path(mark).touch()
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    class InterruptedWriter(ScheduleWriter):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            exchange: Callable[[BrokerLink, Command], Command] = BrokerLink._exchange  # pyright: ignore[reportPrivateUsage]

            def ending(link: BrokerLink, command: Command) -> Command:
                if command.code == RequestCode.BULK_COMMIT and not Path(mark).exists():
                    FrameConnection.next_event = end  # type: ignore[assignment,method-assign]  # it does not return
                return exchange(link, command)

            BrokerLink._exchange = ending  # type: ignore[assignment,method-assign]  # pyright: ignore[reportPrivateUsage]
            try:
                super().commit(messages)
            finally:
                BrokerLink._exchange = exchange  # type: ignore[assignment,method-assign]  # pyright: ignore[reportPrivateUsage]

    class InterruptedSink(ScheduleSink):
        @classmethod
        def name(cls) -> str:
            return NAME

        def writer(self, schema: types.StructType, overwrite: bool) -> ScheduleWriter:
            usual = super().writer(schema, overwrite)
            return InterruptedWriter(usual.shares, usual.columns)

    return InterruptedSink


def main() -> None:
    """Run the job, and wait to be killed."""
    broker, job, mark = sys.argv[1:]
    spark = spark_session(master="local[2]", settings=SETTINGS)
    spark.dataSource.register(interrupted(mark, is_killed=False))
    hand_over(spark, SinkOptions(broker=broker, job=job), job)


if __name__ == "__main__":
    main()
