"""Parquet files of an archive that one attempt of a task writes: one a day and topic.

Rows come with their day and topic together. In a directory a file is written beside its place,
made durable, and then given its name: what has the name of a Parquet file is one, whatever dies.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import SparkJobError
from .archive_log import Run
from .batch import ArchivedFile
from .lake import Lake
from .lake_place import lake_of

PARTITION_COLUMNS = ("date", "topic_name")
"""Columns whose values are in the names of folders, and not in the files."""
DEFAULT_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The folder of an empty value, as Spark and Hive name it."""
_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
"""Characters that Spark escapes in the name of a folder."""
_CODE = re.compile("%([0-9A-F]{2})")


def folder_of(values: tuple[str, ...]) -> str:
    """The folder of a day and a topic, with the names that Spark gives and reads."""
    named = zip(PARTITION_COLUMNS, values, strict=True)
    return "/".join(f"{name}={escaped(value)}" for name, value in named)


def escaped(value: str) -> str:
    """A value as the name of a folder has it."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value) or DEFAULT_NAME


def values_of(path: str) -> tuple[str | None, ...]:
    """Day and topic of a file by its path below the archive; None where one was empty."""
    folders = dict(part.split("=", 1) for part in path.split("/")[:-1])
    return tuple(_unescaped(folders[name]) for name in PARTITION_COLUMNS)


def _unescaped(name: str) -> str | None:
    if name == DEFAULT_NAME:
        return None
    return _CODE.sub(lambda found: chr(int(found[1], 16)), name)


class DayFiles:
    """The files of one attempt, one of them open at a time.

    Args:
        run: That they are of.
        attempt: Of a task; no other one has its name.
    """

    def __init__(self, run: Run, attempt: str) -> None:
        self._run = run
        self._lake = lake_of(run.place)
        self._attempt = attempt
        self._open: _OpenFile | None = None
        self.files: list[ArchivedFile] = []
        """Those that are closed, and durable."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            SparkJobError: The directory cannot be written.
        """
        for values, rows in _groups(batch):
            if self._open is None or self._open.values != values:
                self.close()
                self._open = self._new(values, rows.schema)
            self._open.write(rows)

    def close(self) -> None:
        """End the file that is open, and make it durable.

        Raises:
            SparkJobError: The directory cannot be written.
        """
        if self._open is not None:
            one, self._open = self._open, None
            self.files.append(one.close())

    def drop(self) -> None:
        """Let go of the file that is open: the attempt has failed."""
        if self._open is not None:
            one, self._open = self._open, None
            one.drop()

    def _new(self, values: tuple[str, ...], schema: pa.Schema) -> _OpenFile:
        name = self._run.file_name(self._attempt, len(self.files))
        return _OpenFile(self._lake, f"{folder_of(values)}/{name}", values, schema)


class _OpenFile:
    """A file that is being written; it has its name when it is closed."""

    def __init__(self, lake: Lake, name: str, values: tuple[str, ...], schema: pa.Schema) -> None:
        self.values = values
        self._lake = lake
        self._name = name
        self._rows = 0
        self._blocks = ExitStack()
        with self._refusals():
            file = self._blocks.enter_context(lake.written(name))
            self._writer = pq.ParquetWriter(file, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        with self._refusals():
            self._writer.write_batch(rows)
        self._rows += rows.num_rows

    def close(self) -> ArchivedFile:
        with self._refusals():
            self._writer.close()
            self._blocks.close()
            size = self._lake.size(self._name)
        return ArchivedFile(self._name, self._rows, 0 if size is None else size)

    def drop(self) -> None:
        error = SparkJobError("an attempt of a task failed")
        with suppress(OSError, SparkJobError), self._blocks:
            self._writer.close()  # else it writes when it is collected
            raise error

    @contextmanager
    def _refusals(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise SparkJobError(
                f"{self._lake.place}/{self._name}: expected to write there, found: {error}"
            ) from None


def _groups(batch: pa.RecordBatch) -> list[tuple[tuple[str, ...], pa.RecordBatch]]:
    """The rows of each day and topic without these columns, in the order in which they come."""
    if not batch.num_rows:
        return []
    keys: Any = [batch.column(name) for name in PARTITION_COLUMNS]
    is_new = np.zeros(batch.num_rows, np.bool_)
    for key in keys:
        codes = key.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        is_new[1:] |= codes[1:] != codes[:-1]
    starts = [0, *np.flatnonzero(is_new).tolist()]
    rows: Any = batch.drop_columns(list(PARTITION_COLUMNS))
    return [
        (tuple(str(key[low].as_py() or "") for key in keys), rows.slice(low, high - low))
        for low, high in zip(starts, [*starts[1:], batch.num_rows], strict=True)
    ]
