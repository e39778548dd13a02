"""Rows of a task in portions, and their split among brokers."""

from __future__ import annotations

from typing import Any

from timermq.pipeline.spark.sink.portion import Portion, portions
from timermq.pipeline.spark.sink.row_sum import fingerprint, shared_fingerprint

from .rows import batch_of, columns_of, row

ROWS = [row(body=f"b{at}".encode(), key=f"k{at}", tag=None, properties=None) for at in range(60)]
COLUMNS = columns_of(batch_of(ROWS))


def bodies(given: list[Portion]) -> list[bytes]:
    """The rows by their bodies."""
    columns: list[Any] = [one.rows.column("body") for one in given]
    return [body for column in columns for body in column.to_pylist()]


def test_numbers() -> None:
    """Rows count from the partition's first one, over all batches."""
    found = list(portions(iter([batch_of(ROWS[:7]), batch_of(ROWS[7:])]), COLUMNS))

    assert [*range(60)] == [place for one in found for place in one.places.tolist()]
    assert [row["body"] for row in ROWS] == bodies(found)
    assert 60 == sum(len(one.words) for one in found)


def test_shares() -> None:
    """Each row is one broker's, the same whatever partition it comes in."""
    (whole,) = portions(iter([batch_of(ROWS)]), COLUMNS)
    shares = [whole.share(index, 3) for index in range(3)]

    assert sorted(bodies([whole])) == sorted(bodies(shares))
    assert all(
        place == int(body[1:])
        for one in shares
        for place, body in zip(one.places.tolist(), bodies([one]), strict=True)
    )
    assert all(bodies([one]) for one in shares)
    again = [one.share(1, 3) for one in portions(iter([batch_of(ROWS[::-1])]), COLUMNS)]
    assert sorted(bodies(again)) == sorted(bodies([shares[1]]))


def test_the_fingerprint_of_a_share() -> None:
    """Other brokers are another share, also where any rows will do; their order is none."""
    rows = fingerprint(COLUMNS, [])
    found = {shared_fingerprint(one, names) for one in (rows, "") for names in ("ab", "abc")}

    assert 4 == len(found)
    assert shared_fingerprint(rows, "ba") in found
