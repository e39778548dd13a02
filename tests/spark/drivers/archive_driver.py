"""A driver of the archive's job, which stands still in the hand-over to be killed there.

``python -m spark.drivers.archive_driver STORE DIRECTORY MARK MOMENT``: then it makes ``MARK``. The
moment is ``before``: all files are written, and there is no entry; or ``behind``: the entry is
there, and its run does not know it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from pyspark.sql import types
from pyspark.sql.datasource import WriterCommitMessage

from spark.conftest import SETTINGS
from timermq.pipeline.spark import spark_session
from timermq.pipeline.spark.archive.file_sink import FileSink, FileWriter
from timermq.pipeline.spark.jobs.archive import archive

MOMENTS = ("before", "behind")


def standing(mark: str, moment: str) -> type[FileSink]:
    """The sink, but that its commit makes a file at a moment, and stands still."""

    class StandingWriter(FileWriter):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            if moment == "behind":
                super().commit(messages)
            Path(mark).touch()
            signal.pause()

    class StandingSink(FileSink):
        def writer(self, schema: types.StructType, overwrite: bool) -> FileWriter:
            return StandingWriter(super().writer(schema, overwrite).run)

    return StandingSink


def main() -> None:
    """Run the job, and wait to be killed."""
    store, directory, mark, moment = sys.argv[1:]
    spark = spark_session(master="local[2]", settings=SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("timermq.pipeline.spark.jobs.archive.FileSink", standing(mark, moment))
        archive(spark, store, directory)


if __name__ == "__main__":
    main()
