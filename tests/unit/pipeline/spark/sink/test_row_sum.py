"""The fingerprint of a job's rows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from timermq.pipeline.spark.sink.property_columns import narrow_batches
from timermq.pipeline.spark.sink.row_sum import RowSum, Sum, fingerprint

from .rows import Row, batch_of, columns_of, map_of, row

ROWS = [
    row(body=f"b{at}".encode(), key=f"k{at % 3}", tag=None, properties={"a": str(at), "b": None})
    for at in range(40)
]
COLUMNS = columns_of(batch_of(ROWS))


def sum_of(rows: Sequence[Row], **types: pa.DataType) -> Sum:
    """The sum of a task."""
    batch = batch_of(rows, **types)
    total = RowSum(columns_of(batch))
    for narrow in narrow_batches(batch, columns_of(batch)):
        total.add(narrow)
    return total.value


def of_rows(rows: Sequence[Row], **types: pa.DataType) -> str:
    """The fingerprint of a job with one task."""
    return fingerprint(columns_of(batch_of(rows, **types)), [sum_of(rows, **types)])


def test_order_and_partitions_do_not_count() -> None:
    """Rows in other tasks, in another order, with their properties in another order."""
    shuffled = ROWS.copy()
    random.Random(3).shuffle(shuffled)
    turned: list[Row] = [
        {**one, "properties": dict(reversed(map_of(one).items()))} for one in shuffled
    ]

    parts = [sum_of(turned[:1]), sum_of(turned[1:30]), sum_of(turned[30:])]

    assert of_rows(ROWS) == fingerprint(COLUMNS, parts)
    assert fingerprint(COLUMNS, []) != of_rows(ROWS)


def test_many_names_are_summed_in_runs() -> None:
    """Which names stand in a batch together does not count."""
    rows = [row(properties={f"n{at}": "v"}) for at in range(200)]
    columns = columns_of(batch_of(rows))

    one_by_one = fingerprint(columns, [sum_of([one]) for one in rows])

    assert one_by_one == of_rows(rows)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "U"},
        {"topic": None},
        {"body": b"b8"},
        {"body": None},
        {"body": b""},
        {"deliver_at": 1},
        {"deliver_at": None},
        {"key": "k"},
        {"key": None},
        {"tag": "k1"},
        {"tag": "k1", "key": None},
        {"properties": None},
        {"properties": {"a": "7", "b": ""}},
        {"properties": {"a": "8"}},
        {"properties": {"b": "7"}},
    ],
)
def test_every_value_counts(changed: dict[str, object]) -> None:
    """One value of one row makes it another job."""
    rows = [*ROWS[:7], {**ROWS[7], **changed}, *ROWS[8:]]

    assert of_rows(ROWS) != of_rows(rows)


def test_values_are_told_apart_by_their_places() -> None:
    """What moves from one column to the next is another row, and a row twice is two rows."""
    assert of_rows([row(topic="ab", body=b"c")]) != of_rows([row(topic="a", body=b"bc")])
    assert of_rows([row(), row()]) != of_rows([row()])
    assert of_rows([row(), row(), row()]) != of_rows([row()])


def test_names_and_types_of_columns_count() -> None:
    """A delay is no moment."""
    usual = {"topic": "T", "body": b"x"}
    prints = {
        of_rows([{**usual, "deliver_at": 5}]),
        of_rows([{**usual, "delay_ms": 5}]),
        of_rows([{**usual, "deliver_at": "5"}], deliver_at=pa.string()),
    }

    assert 3 == len(prints)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("deliver_at", pa.timestamp("us", tz="UTC")),
        ("delay", pa.duration("us")),
        ("delay_ms", pa.int32()),
        ("level", pa.string()),
    ],
)
def test_every_type_of_moment(name: str, kind: pa.DataType) -> None:
    """Whatever says when, another moment is another job."""
    rows = [
        [{"topic": "T", "body": b"x", name: str(at) if pa.types.is_string(kind) else at}]
        for at in (1, 2)
    ]

    assert of_rows(rows[0], **{name: kind}) != of_rows(rows[1], **{name: kind})
