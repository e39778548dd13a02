"""The shared parts of the tables as data sources of Spark.

A table is a subclass of ``TableSource`` with its declaration, and of ``TableReader`` with two
methods: how the work is cut (``spans``, in the planner) and what a piece of it holds (``batches``,
in an executor). Filter pushdown is not used: Spark 4.3.0 applies one query's filters to the next
query of the same frame. Ranges and columns are options.

Spark keeps the pieces of a loaded frame: ``load`` again to see what has been written since.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Generic, TypeVar

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from ..errors import SparkJobError
from ..file_part import numbers
from ..named_stores import named_stores
from ..options import ReadOptions
from ..store_view import StoreView
from ..worker import keep_imports
from .declaration import BROKER, Table

Span = TypeVar("Span")
"""A piece of the work; small, and goes to an executor by pickle."""

SPAN_BYTES = 64 << 20
"""Bytes of a file that a task reads, unless there are to be fewer or more of them."""
SPANS_MIN = 8
"""Tasks that a large table has at least, so that all cores are busy."""


@attrs.frozen
class Piece(Generic[Span]):
    """A piece of the work, and whose store it is of."""

    broker: str
    span: Span


class TableReader(DataSourceReader, Generic[Span]):
    """Reads one table of one store or several.

    Args:
        options: What is asked for.
        names: The columns, in the order wanted; the broker's may be among them.
    """

    table: ClassVar[Table]
    takes: ClassVar[tuple[str, ...]] = ()
    """Options besides the common ones."""
    is_of_log: ClassVar[bool] = False
    """It reads the commit log and nothing else, so a backup has it."""

    def __init__(self, options: ReadOptions, names: Sequence[str]) -> None:
        self.options = options
        self.asked = tuple(names)
        self.names = tuple(name for name in names if name != BROKER.name) or (self.table.brief,)
        """Those that come from the files."""
        self.schema = self.table.arrow_schema(self.names)

    def partitions(self) -> Sequence[InputPartition]:
        """The pieces, as Spark wants them: a list, and not an empty one."""
        found = list[InputPartition]()
        for store in named_stores(self.options.stores):
            with store.looked_at(self.options.timer_precision_ms) as view:
                self._check(view)
                found += [InputPartition(Piece(store.broker, span)) for span in self.spans(view)]
        return found or [InputPartition(None)]

    def _check(self, view: StoreView) -> None:
        """Refuse a store that has not what the table shows.

        Raises:
            SparkJobError: It is a backup, and the table needs more.
        """
        if view.is_backup and not self.is_of_log:
            raise SparkJobError(
                f"{view.root}: expected a store, as {self.table.name} needs, found a backup, which "
                "has the commit log alone: `timermq restore` makes a store of it"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a piece."""
        keep_imports()
        piece = partition.value
        if piece is not None:
            yield from (self._shown(batch, piece.broker) for batch in self.batches(piece.span))

    def _shown(self, batch: pa.RecordBatch, broker: str) -> pa.RecordBatch:
        """The columns that were asked for, the broker's among them."""
        if self.asked == self.names:
            return batch
        whose = pa.repeat(broker, batch.num_rows)
        arrays: list[Any] = [
            whose if name == BROKER.name else batch.column(name) for name in self.asked
        ]
        schema = self.table.arrow_schema(self.asked)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType]

    @abstractmethod
    def spans(self, view: StoreView) -> list[Span]:
        """Cut the work, none for an empty table; in the planner.

        What ``batches`` needs to know must stand in the pieces: the reader that it runs on is a
        copy from before.
        """

    @abstractmethod
    def batches(self, span: Span) -> Iterator[pa.RecordBatch]:
        """The rows of a piece, with ``self.schema``; in an executor."""

    def batch(self, known: Mapping[str, pa.Array[Any]], fields: NDArray[np.void]) -> pa.RecordBatch:
        """A batch of the wanted columns.

        Args:
            known: Columns by name.
            fields: Records of a file; a column that is not known is a field of them.
        """
        arrays = [known[name] if name in known else numbers(fields[name]) for name in self.names]
        # The stubs of pyarrow leave the parameter of its arrays open.
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)  # pyright: ignore[reportUnknownMemberType]


class TableSource(DataSource):
    """A table that ``spark.read.format`` finds by its name."""

    reader_type: ClassVar[type[TableReader[Any]]]
    is_stream: ClassVar[bool] = False
    """Its rows stay, and new ones come: ``streamReader`` is its own."""

    @classmethod
    def name(cls) -> str:
        """The name that ``spark.read.format`` takes."""
        return cls.reader_type.table.name

    @property
    def read_options(self) -> ReadOptions:
        """The options of the read.

        Raises:
            SparkJobError: An option is unknown, missing, or no value of its kind.
        """
        return ReadOptions.parse(self.name(), self.options, self.reader_type.takes)

    def schema(self) -> str:
        """All columns, or those of the option ``columns``."""
        keep_imports()
        table = self.reader_type.table
        return table.ddl(self.read_options.columns or table.all_names)

    def reader(self, schema: types.StructType) -> DataSourceReader:
        """The reader of the columns of a schema."""
        return self.reader_type(self.read_options, wanted(self.reader_type.table, schema))

    def streamReader(self, schema: types.StructType) -> DataSourceStreamReader:  # noqa: ARG002 - Spark's
        """The reader of the columns of a schema as a stream; a table that is one has its own.

        Raises:
            SparkJobError: The table is no stream.
        """
        raise self.no_stream()

    @classmethod
    def no_stream(cls) -> SparkJobError:
        """The refusal of a stream, for tables of which rows change or go."""
        return SparkJobError(
            f"{cls.name()}: expected a table whose rows stay, as those of timermq.commitlog "
            "and timermq.delivered do, found one that is no stream: use spark.read, and load it "
            "again for newer rows"
        )


def wanted(table: Table, schema: types.StructType) -> list[str]:
    """The columns of a schema, checked against the table.

    Raises:
        SparkJobError: The table has no such column, or it is of another type.
    """
    kinds = {"integer": "int", "bigint": "long"}
    return table.check(
        (field.name, kinds.get(field.dataType.typeName(), field.dataType.typeName()))
        for field in schema.fields
    )


def cut(size: int, unit: int, options: ReadOptions) -> list[tuple[int, int]]:
    """Cut a number of bytes into ranges, at multiples of a unit.

    Args:
        size: Bytes, a multiple of ``unit``.
        unit: Bytes that stay together.
        options: How many ranges are wanted.
    """
    units = size // unit
    if not units:
        return []
    count = options.partitions or max(-(-size // SPAN_BYTES), min(SPANS_MIN, units))
    places = [units * number // count * unit for number in range(count + 1)]
    return [(low, high) for low, high in pairwise(places) if low < high]
