"""The sink of the archive's job: tasks write files, and the commit puts the one entry.

A task that is retried writes files with names of its own. The commit lists those of the tries that
Spark counts; all others are removed when the batch has its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from ..sink.part_writer import new_attempt
from ..worker import keep_imports
from .archive_log import Run, commit, has_entry
from .batch import ArchivedFile
from .day_files import DayFiles
from .lake_place import lake_of

SINK = "timermq.archive_files"


class WrittenFiles(WriterCommitMessage):
    """The files of one task on their way to the driver."""

    def __init__(self, files: Sequence[ArchivedFile]) -> None:
        self.files = tuple(files)


class FileWriter(DataSourceArrowWriter):
    """Writes rows that come by day and topic.

    Args:
        run: That they are of.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def write(  # type: ignore[override]  # PySpark's base of rows and batches is one
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Write the files of one task."""
        keep_imports()
        context = TaskContext.get()
        files = DayFiles(self.run, new_attempt(0 if context is None else context.partitionId()))
        try:
            for batch in iterator:
                files.write(batch)
            files.close()
        except BaseException:
            files.drop()
            raise
        return WrittenFiles(files.files)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files a batch."""
        commit(self.run, _files_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what is known of; other tasks may still write, and the next run removes that.

        A commit that raised behind its entry has made a batch.
        """
        if has_entry(self.run):
            return
        lake = lake_of(self.run.place)
        for file in _files_of(messages):
            lake.remove(file.path)


def _files_of(messages: Sequence[WriterCommitMessage | None]) -> list[ArchivedFile]:
    return [file for one in messages if isinstance(one, WrittenFiles) for file in one.files]


class FileSink(DataSource):
    """The sink, for the job alone."""

    @classmethod
    def name(cls) -> str:
        """The name that the job asks for."""
        return SINK

    def writer(
        self,
        schema: types.StructType,  # noqa: ARG002 - Spark's call
        overwrite: bool,  # noqa: ARG002 - Spark's call
    ) -> FileWriter:
        """The writer of the run that the options name."""
        return FileWriter(msgspec.json.decode(self.options["run"], type=Run))
