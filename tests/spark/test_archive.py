"""An archive has every message once, for Spark and for readers of plain Parquet."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest
import trio
from pyspark.sql import SparkSession, types
from pyspark.sql.datasource import WriterCommitMessage
from trio.testing import MockClock

from damaged_stores import LATER_MS, clock_at, small_image
from rebuild_by_hand import pack, unpack
from simulation.staged_service import ROOT, SMALL_FILES, running, timed
from timermq.pipeline.spark import StoreView, cause_of, read_table
from timermq.pipeline.spark.archive.archive_log import About, Book
from timermq.pipeline.spark.archive.archive_log import entries as entries_of
from timermq.pipeline.spark.archive.batch import Batch
from timermq.pipeline.spark.archive.day_files import DayFiles
from timermq.pipeline.spark.archive.directory_lake import DirectoryLake
from timermq.pipeline.spark.archive.file_sink import FileSink, FileWriter, WrittenFiles
from timermq.pipeline.spark.jobs.archive import (
    archive,
    archived_files,
    by_day,
    messages,
    read_archive,
    write_files,
)
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


def entries(directory: Path) -> list[Batch]:
    """The batches of its manifest."""
    return entries_of(DirectoryLake(str(directory)))


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """What a reader of Parquet finds in the files of the manifest, in the order of the log."""
    files = archived_files(str(directory))
    # The stubs of pyarrow leave open what files are given as.
    found = dataset.dataset(files, partitioning="hive").to_table()  # pyright: ignore
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
    read = read_archive(spark, str(directory)).orderBy("phy_offset").collect()
    assert [row.asDict() for row in read] == [
        {**row, "date": datetime.date.fromisoformat(str(row["date"]))} for row in found
    ]


def test_one_job_of_many_segments(spark: SparkSession, tmp_path: Path) -> None:
    """What is new in all segments is one batch; with a limit a run makes several."""
    root = unpack(many_segments(), tmp_path / "store")
    starts = StoreView.of(root).log.starts

    one = archive(spark, root, str(tmp_path / "one"), what="all")
    limit = starts[-1]  # the newest segment is beyond it
    several = archive(spark, root, str(tmp_path / "several"), what="all", batch_bytes=limit)

    assert len(starts) > 2
    assert (1, 2, one.high) == (one.batches, several.batches, several.high)
    assert starts[-1] == entries(tmp_path / "several")[1].low
    assert one.rows == several.rows > 0
    assert rows_of(tmp_path / "one") == rows_of(tmp_path / "several")


def many_segments() -> Image:
    """A store whose commit log has several segments."""
    disk = MemoryDisk(now_ms=lambda: LATER_MS)
    options = attrs.evolve(SMALL_FILES, mapped_file_size_commit_log=1 << 12)

    async def serve() -> None:
        async with running(disk, clock_at(LATER_MS), store_options=options) as service:
            for number in range(40):
                service.put([timed(f"m{number}", LATER_MS + 50)])
            await trio.sleep(2)

    trio.run(serve, clock=MockClock(autojump_threshold=0))
    return read_image(disk, ROOT)


def test_a_hot_topic(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """Its messages are written by several tasks, each in the order of the log."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        archive(spark, root, str(directory))
    finally:
        for name, kept in before.items():
            spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)

    (batch,) = entries(directory)
    tasks = {
        Path(file.path).name.split("-")[2] for file in batch.files if "topic_name=T0" in file.path
    }
    assert len(tasks) > 1
    for file in batch.files:
        # The stubs of pyarrow leave open what a file is.
        table = parquet.ParquetFile(directory / file.path).read()  # pyright: ignore
        places = cast("list[int]", table.column("phy_offset").to_pylist())
        assert places == sorted(places)
    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]


def test_a_driver_that_dies(spark: SparkSession, image: Image, tmp_path: Path) -> None:
    """Dead before a batch has its entry, and dead behind it: each message is there once."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"
    book = Book(str(directory), DELIVERED)
    book.begin()
    run = book.begin_batch(0, 1 << 16)
    files = DayFiles(run, "0-dead")
    files.write(half_of(spark, root))
    files.close()
    book.close()  # and now it died
    assert list(directory.glob("date=*/*/*-0-dead-*.parquet"))
    assert 0 == read_archive(spark, str(directory)).count()
    first = archive(spark, root, str(directory))
    assert not list(directory.glob("date=*/*/*-0-dead-*.parquet"))

    unpack(served_on(root, 90), tmp_path / "store")
    book = Book(str(directory), DELIVERED)
    book.begin()
    high = StoreView.of(root).log.end
    run = book.begin_batch(first.high, high)
    write_files(messages(spark, root, first.high, high, about=DELIVERED), run)
    book.close()  # and again
    last = archive(spark, root, str(directory))

    assert (0, high) == (last.batches, last.high)
    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]
    assert len(rows_of(directory)) == spark.read.parquet(str(directory)).count()


def half_of(spark: SparkSession, root: str) -> pa.RecordBatch:
    """Some rows as a task is given them."""
    frame = by_day(messages(spark, root, 0, 1 << 16, about=DELIVERED).limit(3))
    (batch,) = frame.toArrow().to_batches()
    return batch


def test_tasks_that_die(
    spark: SparkSession, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed as soon as it has a file leaves nothing that counts."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"
    mark = tmp_path / "killed"
    monkeypatch.setattr("timermq.pipeline.spark.jobs.archive.FileSink", killed_once(str(mark)))

    archive(spark, root, str(directory))

    assert mark.exists()
    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]
    # What the dead try has left goes with the end of this run.
    (batch,) = entries(directory)
    assert len(batch.files) == len(list(directory.rglob("*.parquet")))


def test_executors_with_disks_of_their_own(
    spark: SparkSession, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they write where the driver does not see it gets no entry; the next run archives it."""
    root, directory = unpack(image, tmp_path / "store"), tmp_path / "archive"

    with monkeypatch.context() as patch:
        patch.setattr("timermq.pipeline.spark.jobs.archive.FileSink", unseen_files())
        with pytest.raises(Exception, match="that a task has written, found no file") as caught:
            archive(spark, root, str(directory))
    assert "all executors and the driver see" in (cause_of(caught.value) or "")
    assert [] == list(directory.glob("_archive/batch-*.json"))
    archive(spark, root, str(directory))

    assert [row["phy_offset"] for row in rows_of(directory)] == [
        row["phy_offset"] for row in table_rows(spark, root)
    ]


def killed_once(mark: str) -> type[FileSink]:
    """The sink, but that the first worker which has written a file is killed."""

    class KilledWriter(FileWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
            found = super().write(iterator)
            if isinstance(found, WrittenFiles) and found.files and not Path(mark).exists():
                Path(mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

    class KilledSink(FileSink):
        def writer(self, schema: types.StructType, overwrite: bool) -> FileWriter:
            return KilledWriter(super().writer(schema, overwrite).run)

    return KilledSink


def unseen_files() -> type[FileSink]:
    """The sink, but that what a task has written is not where the driver looks."""

    class UnseenWriter(FileWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
            found = super().write(iterator)
            if isinstance(found, WrittenFiles):
                for file in found.files:
                    Path(self.run.place, file.path).unlink()
            return found

    class UnseenSink(FileSink):
        def writer(self, schema: types.StructType, overwrite: bool) -> FileWriter:
            return UnseenWriter(super().writer(schema, overwrite).run)

    return UnseenSink


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
