"""One declaration is what Spark, Arrow and the page say about a table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.tables.declaration import Column, Table, layout_columns
from timermq.pipeline.spark.tables.registration import SOURCES
from timermq.timerstore.layout import Layout

TABLE = Table(
    name="timermq.t",
    title="Things.",
    columns=(Column("a", "long", "first"), Column("b", "string", "second")),
)


def test_schemas() -> None:
    """All columns, or some in the order asked for."""
    expected: list[tuple[str, pa.DataType]] = [("b", pa.string()), ("a", pa.int64())]

    assert "a long, b string" == TABLE.ddl()
    assert "a long, b string, broker string" == TABLE.ddl(TABLE.all_names)
    assert "b string, a long" == TABLE.ddl(["b", "a"])
    assert pa.schema(expected) == TABLE.arrow_schema(["b", "a"])
    assert ["| `a` | long | first |", "| `b` | string | second |"] == TABLE.page()[2:4]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([("c", "long")], "timermq.t: column 'c': expected one of a, b, broker"),
        ([("b", "string"), ("a", "int")], "timermq.t: column 'a': expected long, found int"),
    ],
)
def test_wrong_schemas(found: list[tuple[str, str]], text: str) -> None:
    """A schema of one's own names columns of the table, with their types."""
    with pytest.raises(SparkJobError, match=text):
        TABLE.check(found)


def test_layouts() -> None:
    """Fields become the columns that hold all their values."""
    layout = Layout("l", ">", (("x", "b", "one"), ("y", "I", "two"), ("z", "q", "three")))

    assert (Column("x", "int", "one"), Column("z", "long", "three")) == layout_columns(
        layout, without=("y",)
    )
    assert "long" == layout_columns(layout)[1].type


def test_every_table() -> None:
    """Names are the tables' own, columns are there once, and every sentence has an end."""
    names = [source.name() for source in SOURCES]

    assert sorted(set(names)) == names
    for source in SOURCES:
        table = source.reader_type.table
        assert len(set(table.names)) == len(table.names)
        assert table.title.endswith(".")
