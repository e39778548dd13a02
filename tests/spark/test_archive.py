"""An archive has every message once, for Spark and for readers of plain Parquet."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest
import trio
from pyspark.sql import DataFrame, SparkSession
from trio.testing import MockClock

from damaged_stores import LATER_MS, clock_at, small_image
from rebuild_by_hand import pack, unpack
from simulation.staged_service import ROOT, SMALL_FILES, running
from timermq.pipeline.spark import SparkJobError, read_table
from timermq.pipeline.spark.archive.archive_log import About, Book
from timermq.pipeline.spark.jobs.archive import archive, messages, write_by_day
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk

DELIVERED = About("delivered", internal=False)


@pytest.fixture(scope="module")
def image() -> Image:
    """A small store, a part of it delivered."""
    return trio.run(small_image, clock=MockClock(autojump_threshold=0))


def served_on(root: str, seconds: float) -> Image:
    """The files of the store after the broker has served it on."""
    disk = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(disk, pack(root))

    async def serve() -> None:
        async with running(disk, clock_at(LATER_MS), store_options=SMALL_FILES):
            await trio.sleep(seconds)

    trio.run(serve, clock=MockClock(autojump_threshold=0))
    return read_image(disk, ROOT)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """What a reader of plain Parquet finds, in the order of the log."""
    # The stubs of pyarrow leave open what files are given as.
    found = dataset.dataset(str(directory), partitioning="hive").to_table()  # pyright: ignore
    return sorted(found.to_pylist(), key=lambda row: row["phy_offset"])


def table_rows(spark: SparkSession, root: str) -> list[dict[str, Any]]:
    """The rows of ``timermq.delivered``, in the order of the log, as an archive has them."""
    found = read_table(spark, "timermq.delivered", root).drop("broker").orderBy("phy_offset")
    return [row.asDict() for row in found.collect()]


def test_it_goes_on(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """Run after run adds what has come since, with the columns of the table, by day and topic."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"

    first = archive(spark, root, str(directory))
    again = archive(spark, root, str(directory))
    unpack(served_on(root, 90), tmp_path / "store")
    second = archive(spark, root, str(directory))

    found = rows_of(directory)
    assert first.rows > 0
    assert second.rows > 0
    assert (0, first.high) == (again.batches, again.high)
    assert len(found) == first.rows + second.rows
    assert [
        {name: value for name, value in row.items() if name not in ("date", "topic_name")}
        for row in found
    ] == table_rows(spark, root)
    assert {(row["topic_name"], str(row["date"])) for row in found} == {
        ("T0", "2023-11-14"),
        ("T1", "2023-11-14"),
    }
    assert spark.read.parquet(str(directory)).count() == len(found)


def test_a_driver_that_dies(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """Dead before a batch has its entry, and dead behind it: each message is there once."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"
    book = Book(str(directory), DELIVERED)
    half = messages(spark, root, 0, 1 << 16, about=DELIVERED).limit(3)
    write_by_day(half, str(book.staging))
    book.close()  # and now it died

    assert not list(directory.glob("**/*.parquet"))
    archive(spark, root, str(directory))

    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]


def test_executors_with_disks_of_their_own(
    spark: SparkSession, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they write where the driver does not see it gets no entry; the next run archives it."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"

    def unseen(frame: DataFrame, staging: str) -> int:
        rows = write_by_day(frame, staging)
        shutil.rmtree(staging)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr("timermq.pipeline.spark.jobs.archive.write_by_day", unseen)
        with pytest.raises(SparkJobError, match=r"messages that the tasks have written, found 0"):
            archive(spark, root, str(directory))
    assert [] == list(directory.glob("_archive/batch-*.json"))
    archive(spark, root, str(directory))

    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]


def test_all(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """All messages, those of internal topics only if they are asked for."""
    root = unpack(image, tmp_path / "store")

    archive(spark, root, str(tmp_path / "all"), what="all")
    archive(spark, root, str(tmp_path / "internal"), what="all", internal=True)

    log = read_table(spark, "timermq.commitlog", root, columns="phy_offset,topic").collect()
    plain = [row["phy_offset"] for row in log if not row["topic"].startswith("rmq_sys_")]
    found = rows_of(tmp_path / "internal")
    assert plain == [row["phy_offset"] for row in rows_of(tmp_path / "all")]
    assert [row["phy_offset"] for row in log] == [row["phy_offset"] for row in found]
    waiting = [row for row in found if row["topic"].startswith("rmq_sys_")]
    assert waiting
    assert all(row["deliver_ms"] is None for row in waiting)
