"""Tables: their columns declared once, from the layouts of the files where there is one.

What Spark, Arrow and docs/pipeline.md say about a table all comes from its declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import pyarrow as pa

from timermq.timerstore.layout import Layout

from ..errors import SparkJobError

ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
}
"""Spark's names of types, and what a batch must have for them, to the bit."""

_OF_CODE = {"b": "int", "B": "int", "h": "int", "H": "int", "i": "int", "I": "long", "q": "long"}
"""The type that holds a field of a layout."""


@attrs.frozen
class Column:
    """One column; every one may be null as far as Spark knows."""

    name: str
    type: str
    """A key of ``ARROW``."""
    meaning: str


def layout_columns(layout: Layout, *, without: Iterable[str] = ()) -> tuple[Column, ...]:
    """The fields of a layout as columns.

    Args:
        layout: Of a file.
        without: Fields that are none: lengths, magics, hosts.
    """
    left_out = set(without)
    return tuple(
        Column(field.name, _OF_CODE[field.code], field.meaning)
        for field in layout.fields
        if field.name not in left_out
    )


BROKER = Column("broker", "string", "the broker's name, or the store's directory")
"""The last column of every table: whose store a row is of."""


@attrs.frozen(kw_only=True)
class Table:
    """One table of a store."""

    name: str
    """The name for ``spark.read.format``."""
    title: str
    """One sentence for the page."""
    columns: tuple[Column, ...]
    """Those that come from the files; ``BROKER`` follows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that come from the files."""
        return tuple(column.name for column in self.columns)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns as Spark shows them."""
        return (*self.columns, BROKER)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of the columns as Spark shows them."""
        return tuple(column.name for column in self.all_columns)

    @property
    def brief(self) -> str:
        """The first column of numbers, which costs little where rows are counted."""
        return next(column.name for column in self.columns if column.type == "long")

    def column(self, name: str) -> Column:
        """A column by its name.

        Raises:
            SparkJobError: There is none.
        """
        for column in self.all_columns:
            if column.name == name:
                return column
        raise SparkJobError(
            f"{self.name}: column {name!r}: expected one of {', '.join(self.all_names)}"
        )

    def ddl(self, names: Sequence[str] | None = None) -> str:
        """The schema as Spark reads it: some columns, or those that come from the files.

        Raises:
            SparkJobError: There is no such column.
        """
        chosen = [self.column(name) for name in names or self.names]
        return ", ".join(f"{column.name} {column.type}" for column in chosen)

    def arrow_schema(self, names: Sequence[str]) -> pa.Schema:
        """The schema of batches with some columns, in their order."""
        return pa.schema([(name, ARROW[self.column(name).type]) for name in names])

    def check(self, found: Iterable[tuple[str, str]]) -> list[str]:
        """The columns that somebody asks for by a schema of their own.

        Args:
            found: Names and Spark types.

        Raises:
            SparkJobError: A column is not of the table, or of another type.
        """
        names: list[str] = []
        for name, type_name in found:
            expected = self.column(name).type
            if type_name != expected:
                raise SparkJobError(
                    f"{self.name}: column {name!r}: expected {expected}, found {type_name}"
                )
            names.append(name)
        return names

    def page(self) -> list[str]:
        """Rows of a Markdown table: column, type, meaning."""
        rows = ["| column | type | meaning |", "| --- | --- | --- |"]
        return rows + [f"| `{one.name}` | {one.type} | {one.meaning} |" for one in self.all_columns]
