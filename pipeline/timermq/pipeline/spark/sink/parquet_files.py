"""Parquet files that a task writes row group by row group: refused rows, and far messages.

A far message has the columns ``topic``, ``body`` (binary), ``deliver_at`` (milliseconds) and
``properties``, with its key and tag as KEYS and TAGS: the sink takes it as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from timermq.remoting.bulk import RefusedRow
from timermq.timerstore.array_types import Flags, Places

from ..errors import SparkJobError
from .arrow_columns import Column, array_of, cast, column_of, taken, values_of
from .part_writer import partition_of
from .row_check import CheckedRows

DAY_MS = 86_400_000


class ParquetFiles:
    """Some files of one attempt, each durable when they are closed.

    Args:
        directory: Where.
        name: Of each file.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = f"{name}.parquet"
        self._writers: dict[Path, pq.ParquetWriter] = {}
        self.rows = 0

    def write(self, table: pa.Table, *, folder: str = "") -> None:
        """Add rows to the file of a folder.

        Raises:
            SparkJobError: The directory cannot be written.
        """
        path = self._directory / folder / self._name
        try:
            if path not in self._writers:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writers[path] = pq.ParquetWriter(str(path), table.schema)
            self._writers[path].write_table(table)
        except OSError as error:
            raise SparkJobError(f"{path}: expected to write there: {error}") from None
        self.rows += table.num_rows

    def close(self) -> None:
        """End the files, and make them durable."""
        for path, writer in self._writers.items():
            writer.close()
            with path.open("rb") as file:
                os.fsync(file.fileno())
        self._writers.clear()


def refused_table(checked: CheckedRows, places: Places, partition: int) -> pa.Table:
    """The refused rows with their place, rule and remark behind their own columns.

    Args:
        checked: Rows of a partition.
        places: Number of each of them in the partition, from 0.
        partition: Its number.
    """
    rows = sorted(checked.refused)
    chosen = np.array(rows, np.int64)
    refusals = [checked.refused[row] for row in rows]
    names = checked.batch.schema.names
    columns = {name: taken(column_of(checked.batch, name), chosen) for name in names}
    return _refused(
        columns,
        partitions=[partition] * len(rows),
        rows=array_of(places[chosen]),
        rules=[one.rule for one in refusals],
        remarks=[one.remark for one in refusals],
    )


def late_table(rows: Sequence[RefusedRow], kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows that the broker refused later, without their own columns, which it does not give back.

    Args:
        rows: As the broker tells them.
        kinds: The types of the columns of the DataFrame, by name.
    """
    none: list[object] = [None] * len(rows)
    columns = {name: array_of(none, kind) for name, kind in kinds.items()}
    return _refused(
        columns,
        partitions=[partition_of(part) for part, *_ in rows],
        rows=array_of(none, pa.int64()),
        rules=[rule for _, _, rule, _ in rows],
        remarks=[f"{remark} (row {row} of {part})" for part, row, _, remark in rows],
    )


def far_tables(checked: CheckedRows, wanted: Flags) -> list[tuple[str, pa.Table]]:
    """Rows as far messages: ``due_day=YYYY-MM-DD`` and those of the day."""
    days = checked.deliver_ms // DAY_MS
    found: list[tuple[str, pa.Table]] = []
    for day in np.unique(days[wanted]).tolist():
        places = np.flatnonzero(wanted & (days == day))
        columns = {
            "topic": taken(column_of(checked.batch, "topic"), places),
            "body": cast(taken(column_of(checked.batch, "body"), places), pa.binary()),
            "deliver_at": array_of(checked.deliver_ms[places]),
            "properties": _maps(
                {name: taken(values, places) for name, values in checked.properties.items()},
                len(places),
            ),
        }
        found.append((due_day(day * DAY_MS), _table(columns)))
    return found


def due_day(ms: int) -> str:
    """The folder of the day that a moment is in, UTC."""
    return f"due_day={datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d}"


def _refused(
    columns: Mapping[str, Column],
    *,
    partitions: Sequence[int],
    rows: Column,
    rules: Sequence[str],
    remarks: Sequence[str],
) -> pa.Table:
    """Rows of the rejects table, of job and broker: Spark reads all of them as one."""
    return _table(
        {
            **columns,
            "partition": array_of(partitions, pa.int32()),
            "row": rows,
            "rule": array_of(rules),
            "remark": array_of(remarks),
        }
    )


def _table(columns: Mapping[str, Column]) -> pa.Table:
    arrow: Any = pa
    table: pa.Table = arrow.table(dict(columns))
    return table


def _maps(columns: Mapping[str, Column], rows: int) -> Column:
    """Columns of properties as one column of maps."""
    found: list[list[tuple[str, str]]] = [[] for _ in range(rows)]
    for name, column in columns.items():
        for row, value in enumerate(values_of(column)):
            if value is not None:
                found[row].append((name, str(value)))
    return array_of(found, pa.map_(pa.string(), pa.string()))
