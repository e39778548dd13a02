"""What waits, read by workers of Spark: they join the deletes, a window passes over the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from timermq.pipeline.spark import read_table
from timermq.timerlog.segment import CHUNK_COUNT
from unit.pipeline.spark.outlined_store import (
    CANCELLED,
    COUNT,
    EARLY_CANCELLED,
    PER_SLOT,
    moment_ms,
    outlined_store,
)
from unit.pipeline.spark.store_directories import served


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose timer log has outlines."""
    return outlined_store(tmp_path_factory.mktemp("outlined") / "store")


def test_all_and_a_window(spark: SparkSession, root: str) -> None:
    """Cancelled messages are in neither; the window lies in two stretches, each a task."""
    first = CHUNK_COUNT // PER_SLOT * PER_SLOT
    window = range(first, first + 10 * PER_SLOT)
    gone = {*CANCELLED, *EARLY_CANCELLED}
    with served(root):
        every = read_table(spark, "timermq.pending", root, columns="deliver_ms", partitions=3)
        some = read_table(
            spark,
            "timermq.pending",
            root,
            columns="deliver_ms,keys",
            due_from=moment_ms(window.start),
            due_to=moment_ms(window.stop),
        )
        tasks = (every.rdd.getNumPartitions(), some.rdd.getNumPartitions())
        count, rows = every.count(), some.collect()

    assert (3, 2) == tasks
    assert COUNT - len(gone) == count
    assert [moment_ms(one) for one in window if one not in gone] == sorted(
        row["deliver_ms"] for row in rows
    )


def test_moments_without_messages(spark: SparkSession, root: str) -> None:
    """Nothing is read where nothing can be due."""
    with served(root):
        found = read_table(
            spark, "timermq.pending", root, columns="deliver_ms", due_from=moment_ms(COUNT) + 60_000
        )

        assert 0 == found.count()


def test_the_store_is_where_outlines_are(root: str) -> None:
    """Without them the tests above would show nothing."""
    assert any((Path(root) / "timermq-outlines").iterdir())
