"""A driver of a stream into a broker, which stands still behind a hand-over to be killed there.

``python -m spark.drivers.stream_driver BROKER DIRECTORY``: then it makes ``DIRECTORY/mark``.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession, types
from pyspark.sql.datasource import WriterCommitMessage

from spark.conftest import SETTINGS
from timermq.pipeline.spark import spark_session
from timermq.pipeline.spark.sink import ScheduleSink, SinkOptions
from timermq.pipeline.spark.sink.cluster import shares_of
from timermq.pipeline.spark.sink.schedule_sink import ScheduleStreamWriter
from timermq.pipeline.spark.sink.sink_options import NAME

KILLED_BATCH = 1
"""The batch that is handed over when the driver dies."""
JOB = "killed-stream"
"""Its name at the broker."""
COLUMNS = "topic string, body string, delay_ms long, key string"


def stream(spark: SparkSession, options: SinkOptions, source: str, checkpoint: str) -> None:
    """Schedule the rows of the Parquet files of a directory, a file a batch, and end.

    Args:
        spark: A session with a sink of that name.
        options: Of the sink.
        source: The directory; its files have ``COLUMNS``.
        checkpoint: Where the query notes how far it has come.
    """
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(source)
    query = (
        rows.writeStream.format(NAME)
        .options(**options.to_options())
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def standing(mark: str) -> type[ScheduleSink]:
    """The sink, but that its driver makes a file when a batch is handed over, and stands still."""

    class StandingWriter(ScheduleStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            super().commit(messages, batchId)
            if batchId == KILLED_BATCH:
                Path(mark).touch()
                signal.pause()

    class StandingSink(ScheduleSink):
        def streamWriter(self, schema: types.StructType, overwrite: bool) -> StandingWriter:
            columns, options = self._checked(schema, overwrite=overwrite)
            return StandingWriter(shares_of(options), columns)

    return StandingSink


def main() -> None:
    """Run the stream, and wait to be killed."""
    broker, directory = sys.argv[1:]
    spark = spark_session(master="local[2]", settings=SETTINGS)
    spark.dataSource.register(standing(f"{directory}/mark"))
    options = SinkOptions(broker=broker, job=JOB)
    stream(spark, options, f"{directory}/in", f"{directory}/checkpoint")


if __name__ == "__main__":
    main()
