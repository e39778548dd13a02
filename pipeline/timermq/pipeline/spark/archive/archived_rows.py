"""The rows of an archive in an object store, which Spark's own reader of Parquet does not see.

The files that the manifest names are shared out among tasks by their bytes, and read through
pyarrow. Day and topic stand in the names of folders, as Spark reads them in a directory.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..byte_arrays import Values
from ..errors import SparkJobError
from ..places import system_of, unreadable
from ..tables.delivered_table import TABLE
from ..tables.source import SPAN_BYTES
from ..worker import keep_imports
from .archive_log import ABOUT, entries, is_archive
from .batch import ArchivedFile
from .day_files import PARTITION_COLUMNS, values_of
from .lake_place import lake_of

SOURCE = "timermq.archived"
DAY, TOPIC = PARTITION_COLUMNS
FILES_PER_TASK = 64
"""Files of a task at most: small ones cost a request or two each."""
ROWS_PER_BATCH = 16_384
_KINDS: Mapping[str, pa.DataType] = {DAY: pa.date32(), TOPIC: pa.string()}


def listed_files(directory: str) -> list[ArchivedFile]:
    """The files of an archive's manifest as they are now, in the order of the batches.

    Args:
        directory: The archive's, or a URL.

    Raises:
        SparkJobError: There is no archive, or its place cannot be read.
    """
    lake = lake_of(directory)
    if not is_archive(lake):
        raise SparkJobError(f"{directory}: expected an archive, found no {ABOUT} in it")
    return [file for batch in entries(lake) for file in batch.files]


def ddl(columns: Sequence[str] = ()) -> str:
    """The schema of an archive as Spark reads it: some columns, or all.

    Raises:
        SparkJobError: There is no such column.
    """
    own = {DAY: f"{DAY} date", TOPIC: f"{TOPIC} string"}
    names = columns or (*TABLE.names, *own)
    return ", ".join(own[name] if name in own else TABLE.ddl([name]) for name in names)


def shares(files: Sequence[ArchivedFile]) -> list[list[ArchivedFile]]:
    """The files as tasks read them: side by side up to a number of bytes, one at least."""
    found: list[list[ArchivedFile]] = []
    room = 0
    for file in files:
        if not found or file.size > room or len(found[-1]) == FILES_PER_TASK:
            found.append([])
            room = SPAN_BYTES
        found[-1].append(file)
        room -= file.size
    return found


class ArchivedReader(DataSourceReader):
    """Reads the files of an archive.

    Args:
        place: The archive's, as ``places.object_place`` makes it.
        names: The columns, in the order wanted.
    """

    def __init__(self, place: str, names: Sequence[str]) -> None:
        self.place = place
        self.names = tuple(names)

    def partitions(self) -> Sequence[InputPartition]:
        """The shares of the tasks; not an empty list, which Spark does not take."""
        found = shares(listed_files(self.place))
        return [InputPartition(one) for one in found] or [InputPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share.

        Raises:
            SparkJobError: A file has gone, is no Parquet, or the place cannot be read.
        """
        keep_imports()
        for file in partition.value:
            yield from self._rows(file)

    def _rows(self, file: ArchivedFile) -> Iterator[pa.RecordBatch]:
        day, topic = values_of(file.path)
        own = {DAY: None if day is None else date.fromisoformat(day), TOPIC: topic}
        stored = [name for name in self.names if name not in own]
        system, key = system_of(f"{self.place}/{file.path}")
        with self._errors(file), system.open_input_file(key) as source:
            # The stubs of pyarrow leave its files open.
            parquet: Any = pq.ParquetFile(source)  # pyright: ignore[reportUnknownMemberType]
            for rows in parquet.iter_batches(batch_size=ROWS_PER_BATCH, columns=stored):
                made = {
                    name: _all_of(value, _KINDS[name], rows.num_rows)
                    for name, value in own.items()
                    if name in self.names
                }
                arrays = [made[one] if one in made else rows.column(one) for one in self.names]
                yield pa.RecordBatch.from_arrays(arrays, names=list(self.names))  # pyright: ignore[reportUnknownMemberType]

    @contextmanager
    def _errors(self, file: ArchivedFile) -> Generator[None]:
        path = f"{self.place}/{file.path}"
        try:
            yield
        except FileNotFoundError:
            raise SparkJobError(
                f"{path}: expected the file that the manifest names, found none: where old files "
                "are dropped, their entries go first"
            ) from None
        except pa.ArrowInvalid as error:
            raise SparkJobError(f"{path}: expected a file of Parquet, found: {error}") from error
        except OSError as error:
            raise unreadable(path, error) from error


def _all_of(value: object, kind: pa.DataType, count: int) -> Values:
    """A column that has one value in all rows."""
    arrow: Any = pa  # its stubs leave open what a column of any kind is
    found: Values = arrow.repeat(arrow.scalar(value, kind), count)
    return found


class ArchivedSource(DataSource):
    """The rows of an archive, for ``read_archive`` alone."""

    @classmethod
    def name(cls) -> str:
        """The name that the reader asks for."""
        return SOURCE

    def schema(self) -> str:
        """The columns that were asked for."""
        keep_imports()
        return ddl(json.loads(self.options["columns"]))

    def reader(self, schema: types.StructType) -> DataSourceReader:
        """The reader of the archive that the options name."""
        return ArchivedReader(self.options["path"], schema.fieldNames())
