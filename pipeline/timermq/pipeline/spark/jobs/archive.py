"""``archive``: delivered messages, or all, as Parquet by date and topic; run again, it goes on.

A batch is one job over a stretch of the commit log, as many segments as there are up to what is
durable now. Where the last one ended stands in the archive's manifest (``archive/archive_log.py``),
so whatever dies in between, every message is archived once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence

import attrs
import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from ..archive.archive_log import About, Book, Run
from ..archive.archived_rows import SOURCE as ARCHIVED
from ..archive.archived_rows import ArchivedSource, ddl, listed_files
from ..archive.batch import Batch
from ..archive.day_files import PARTITION_COLUMNS
from ..archive.file_sink import SINK, FileSink
from ..archive.lake_place import lake_of
from ..archive.messages import SOURCE, ArchiveSource
from ..errors import SparkJobError
from ..named_stores import one_store
from ..options import Stores, absolute
from ..places import object_place
from ..store_view import StoreView

DELIVERED = "delivered"
ALL = "all"
BATCH_BYTES = 64 << 30
"""Bytes of the commit log in a batch, in whole segments, one at least: what a death makes do again,
and what the exchange of a job may spill."""
_DAY_MS = 86_400_000


@attrs.frozen(kw_only=True)
class ArchiveReport:
    """The result of one run of ``archive``: its files, and its end."""

    batches: int
    rows: int
    files: int
    low: int
    """Start of the run in the commit log."""
    high: int
    """Everything before it is archived."""


def archive(
    spark: SparkSession,
    store: Stores,
    directory: str,
    *,
    what: str = DELIVERED,
    internal: bool = False,
    batch_bytes: int = BATCH_BYTES,
) -> ArchiveReport:
    """Archive what has come since the last run.

    Args:
        spark: A session.
        store: The store's directory, or a URL of one in an object store; it may be served.
        directory: The archive's, on a file system that driver and executors share, or a URL such as
            ``s3://bucket/lake``.
        what: ``delivered`` messages, or ``all``.
        internal: Of all, those of the broker's own topics too.
        batch_bytes: Of the commit log in a batch, at least 1.

    Raises:
        SparkJobError: The commit log does not begin where the archive ends, or is damaged; or the
            directory is something else's, or one that not all executors and the driver see.
        OSError: The disk refused; nothing is archived twice by another run.
    """
    if what not in (DELIVERED, ALL):
        raise SparkJobError(f"archive: what: expected {DELIVERED} or {ALL}, found {what!r}")
    book, source = Book(directory, About(what, internal)), one_store(store, "archive")
    batches: list[Batch] = []
    try:
        last, view = book.begin(), source.view()
        first = begins_at(view, last, directory)
        for low, high in stretches(view, first, batch_bytes):
            run = book.begin_batch(low, high)
            write_files(messages(spark, source.root, low, high, about=About(what, internal)), run)
            batches.append(book.end_batch(run))
    finally:
        book.close()
    return ArchiveReport(
        batches=len(batches),
        rows=sum(batch.rows for batch in batches),
        files=sum(len(batch.files) for batch in batches),
        low=first,
        high=batches[-1].high if batches else first,
    )


def follow(
    run: Callable[[], ArchiveReport],
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[ArchiveReport]:
    """Run again and again, for ever; only runs that archived something are reported.

    Args:
        run: One run.
        seconds: Between the end of a run and the next one.
        sleep: Waits.
    """
    while True:
        report = run()
        if report.batches:
            yield report
        sleep(seconds)


def begins_at(view: StoreView, last: Batch | None, directory: str) -> int:
    """The start of a run: the end of the last one, else the start of the log.

    Raises:
        SparkJobError: What stood there was removed before it was archived; or the log ends before.
    """
    if last is None:
        return view.log.start
    if last.high < view.log.start:
        raise SparkJobError(
            f"{view.root}: expected the commit log from {last.high} on, where {directory} ends, "
            f"found it from {view.log.start} on: {view.log.start - last.high} bytes were removed "
            "before they were archived; begin another archive, and archive more often than the "
            "broker removes (file_reserved_time_hours)"
        )
    if last.high > view.log.end:
        raise SparkJobError(
            f"{view.root}: expected a commit log that reaches {last.high}, where {directory} "
            f"ends, found its end at {view.log.end}: it is the archive of another store"
        )
    return last.high


def stretches(view: StoreView, low: int, size: int = BATCH_BYTES) -> Iterator[tuple[int, int]]:
    """The batches of a run: whole segments, and what there is of the newest one.

    Args:
        view: The store.
        low: Where the run begins.
        size: Bytes at which a batch ends with its segment, or before.
    """
    begin = end = low
    for _, first, high in view.log.segments(low, view.log.end):
        if high - begin > size and first > begin:
            yield begin, first
            begin = first
        end = high
    if begin < end:
        yield begin, end


def messages(spark: SparkSession, store: str, low: int, high: int, *, about: About) -> DataFrame:
    """The messages in a stretch of the commit log, with the columns of ``timermq.delivered``."""
    spark.dataSource.register(ArchiveSource)
    reader = spark.read.format(SOURCE).option("path", store).option("what", about.what)
    reader = reader.option("internal", str(about.internal).lower())
    return reader.option("low", str(low)).option("high", str(high)).load()


def by_day(frame: DataFrame) -> DataFrame:
    """Messages as an archive has them: with the UTC day of storing and the topic's folder.

    A day and topic stand together, in the order of the log. What is much of one goes to several
    tasks, and what is little of many to one: Spark's adaptive execution decides by the bytes
    (``spark.sql.adaptive.advisoryPartitionSizeInBytes``).

    Args:
        frame: With the columns of ``timermq.delivered``.
    """
    day = sql.expr(f"cast(date_from_unix_date(cast(stored_ms div {_DAY_MS} as int)) as string)")
    placed = frame.withColumn("date", day).withColumn("topic_name", sql.col("topic"))
    together = placed.hint("rebalance", *map(sql.col, PARTITION_COLUMNS))
    return together.sortWithinPartitions(*PARTITION_COLUMNS, "phy_offset")


def write_files(frame: DataFrame, run: Run) -> None:
    """Write messages as Parquet by day and topic, and make them a batch of an archive.

    Args:
        frame: With the columns of ``timermq.delivered``.
        run: The batch.
    """
    frame.sparkSession.dataSource.register(FileSink)
    writer = by_day(frame).write.format(SINK).mode("append")
    writer.option("run", msgspec.json.encode(run).decode()).save()


def archived_files(directory: str) -> list[str]:
    """The files of an archive's manifest as they are now, for readers of Parquet without Spark.

    Of an archive in an object store they begin with the bucket, as pyarrow's file systems take
    them.

    Args:
        directory: The archive's, or a URL.

    Raises:
        SparkJobError: There is no archive.
    """
    lake = lake_of(directory)
    return [lake.path(file.path) for file in listed_files(directory)]


def read_archive(spark: SparkSession, directory: str, columns: Sequence[str] = ()) -> DataFrame:
    """All messages of an archive, each once, also while a run adds to it or after one has died.

    Args:
        spark: A session.
        directory: The archive's, as driver and executors see it, or a URL such as
            ``s3://bucket/lake``.
        columns: Only these; of an archive in an object store no others are read, whatever is
            selected later. None for all.

    Raises:
        SparkJobError: The directory is no archive; there is no such column.
    """
    place, schema = object_place(directory), ddl(columns)
    if place is not None:
        listed_files(place)  # refused here, and not where rows are asked for
        spark.dataSource.register(ArchivedSource)
        reader = spark.read.format(ARCHIVED).option("path", place)
        return reader.option("columns", json.dumps(list(columns))).load()
    root, paths = absolute(directory), archived_files(directory)
    if not paths:
        # The stubs of PySpark leave its frames of pandas open.
        return spark.createDataFrame([], schema)  # pyright: ignore[reportUnknownMemberType]
    found = spark.read.schema(ddl()).option("basePath", root).parquet(*paths)
    return found.select(*columns) if columns else found
