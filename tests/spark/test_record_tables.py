"""The tables of records in a session: batches, streams with a checkpoint, and no pushed filters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from golden_stores import GoldenStores
from timermq.pipeline.spark import SparkJobError, cause_of, read_stream, read_table
from timermq.pipeline.spark.tables.delivered_table import DeliveredReader
from timermq.pipeline.spark.tables.pending_table import OF_UNITS, PendingReader
from unit.pipeline.spark.store_directories import Row, crashed_directory, rows_of
from unit.pipeline.spark.test_log_stream import BODIES, grow

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def by_place(rows: list[Row]) -> list[Row]:
    """In the order of the log."""
    return sorted(rows, key=lambda row: int(row["phy_offset"]))


def test_pending(spark: SparkSession, tmp_path: Path) -> None:
    """The rows are those that the reader gives, whole or with a schema of one's own."""
    _, root = crashed_directory(tmp_path)
    expected = by_place([{**row, "broker": "mine"} for row in rows_of(PendingReader, root)])
    units = sorted([*OF_UNITS, "broker"])
    root = f"mine={root}"

    found = read_table(spark, "timermq.pending", root).collect()
    narrow = read_table(spark, "timermq.pending", root, columns=",".join(units)).collect()

    assert expected == by_place([row.asDict() for row in found])
    assert [{name: row[name] for name in units} for row in expected] == by_place(
        [row.asDict() for row in narrow]
    )


def test_filters_are_not_pushed(spark: SparkSession, tmp_path: Path) -> None:
    """Queries of one frame do not change each other's rows, as they do with the option on."""
    _, root = crashed_directory(tmp_path)
    frame = read_table(spark, "timermq.pending", root, columns="deliver_ms,phy_offset")
    moments = sorted(int(row["deliver_ms"]) for row in rows_of(PendingReader, root))
    low, high, count = moments[3], moments[-3], len(moments)
    early, late = f"deliver_ms < {low}", f"deliver_ms >= {high}"
    frame.createOrReplaceTempView("waiting")

    assert spark.conf.get(PUSHDOWN) == "false"
    assert (3, count) == (frame.where(early).count(), frame.count())
    both = frame.where(early).union(frame.where(late)).collect()
    assert moments[:3] + moments[-3:] == sorted(row.deliver_ms for row in both)
    counted = frame.where(early).crossJoin(frame.selectExpr("count(*) as n")).collect()
    assert [count] * 3 == [row.n for row in counted]
    told = [
        spark.sql(f"select count(*) as n from waiting where {condition}").collect()[0].n
        for condition in (early, "true")
    ]
    assert [3, count] == told


def streamed(spark: SparkSession, root: Path, directory: Path) -> list[str]:
    """What a run of a query adds to a lake: it takes what is there, and ends."""
    stream = (
        spark.readStream.format("timermq.commitlog")
        .option("path", str(root))
        .option("columns", "phy_offset,body")
        .option("rows_per_batch", "10")
        .load()
    )
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "lake"))
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(directory / "lake")).orderBy("phy_offset").collect()
    return [bytes(row.body).decode() for row in rows]


def test_a_stream_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Run after run, as the log grows, each record comes once."""
    store = tmp_path / "store"
    grow(store, *BODIES[:12])
    assert list(BODIES[:12]) == streamed(spark, store, tmp_path)

    grow(store, *BODIES[12:])
    assert list(BODIES) == streamed(spark, store, tmp_path)


def test_a_stream_of_deliveries(spark: SparkSession, tmp_path: Path) -> None:
    """Deliveries are a stream as well."""
    _, root = crashed_directory(tmp_path / "store")
    stream = spark.readStream.format("timermq.delivered").option("path", root).load()
    query = (
        stream.writeStream.format("memory")
        .queryName("delivered_stream")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.sql("select unique_id from delivered_stream").collect()

    assert sorted(str(row["unique_id"]) for row in rows_of(DeliveredReader, root)) == sorted(
        row.unique_id for row in rows
    )


def test_what_is_no_stream(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """A table whose rows go again is refused by its name, where ours is asked before it starts."""
    root = golden_stores["g3"].root
    text = "timermq.pending: expected a table whose rows stay"
    query = spark.readStream.format("timermq.pending").load(root).writeStream.format("noop")

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is looked at
        query.trigger(availableNow=True).start().awaitTermination()

    assert (cause_of(caught.value) or "").startswith(text)
    with pytest.raises(SparkJobError, match=text):
        read_stream(spark, "timermq.pending", root)
    assert read_stream(spark, "timermq.commitlog", root, columns="broker").isStreaming


def test_several_stores(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """A list is a table of all of them; the last column says which one a row is of."""
    stores = [f"{name}={golden_stores[name].root}" for name in ("g3", "g2")]
    alone = {
        name: read_table(spark, "timermq.commitlog", store, columns="phy_offset").count()
        for name, store in zip(("g3", "g2"), stores, strict=True)
    }

    loaded = spark.read.format("timermq.commitlog").load(stores).groupBy("broker").count()
    chosen = read_table(spark, "timermq.commitlog", stores, columns="broker")

    assert alone == {row["broker"]: row["count"] for row in loaded.collect()}
    assert (["broker"], sum(alone.values())) == (chosen.columns, chosen.count())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": "moment"}, "timermq.pending: column 'moment': expected one of unique_id, "),
        ({"from": "5"}, "timermq.pending: option 'from': expected one of columns, due_from, "),
        ({"due_from": "noon"}, "option due_from: expected epoch milliseconds, or .* 'noon'"),
    ],
)
def test_one_clear_error(
    spark: SparkSession, golden_stores: GoldenStores, options: dict[str, str], text: str
) -> None:
    """What is wrong with a request is said in one line."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is looked at
        read_table(spark, "timermq.pending", golden_stores["g3"].root, **options).collect()

    assert re.search(text, cause_of(caught.value) or "")
