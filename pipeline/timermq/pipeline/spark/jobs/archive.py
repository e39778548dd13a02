"""``archive``: delivered messages, or all, as Parquet by date and topic; run again, it goes on.

A batch is a stretch of the commit log that ends with a segment or with what is durable now. Where
the last one ended stands in the archive itself (``archive/archive_log.py``), so whatever dies in
between, every message is archived once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from ..archive.archive_log import SUFFIX, About, Batch, Book
from ..archive.messages import SOURCE, ArchiveSource
from ..errors import SparkJobError
from ..store_view import StoreView

DELIVERED = "delivered"
ALL = "all"
PARTITION_COLUMNS = ("date", "topic_name")
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
    store: str,
    directory: str,
    *,
    what: str = DELIVERED,
    internal: bool = False,
) -> ArchiveReport:
    """Archive what has come since the last run.

    Args:
        spark: A session.
        store: The store's directory; it may be served.
        directory: The archive's, on a file system that driver and executors share.
        what: ``delivered`` messages, or ``all``.
        internal: Of all, those of the broker's own topics too.

    Raises:
        SparkJobError: The commit log does not begin where the archive ends, or is damaged; or the
            directory is something else's, or one that not all executors and the driver see.
        OSError: The disk refused; nothing is archived twice by another run.
    """
    if what not in (DELIVERED, ALL):
        raise SparkJobError(f"archive: what: expected {DELIVERED} or {ALL}, found {what!r}")
    book = Book(directory, About(what, internal))
    batches: list[Batch] = []
    try:
        last, view = book.begin(), StoreView.of(store)
        first = begins_at(view, last, directory)
        for low, high in stretches(view, first):
            frame = messages(spark, store, low, high, about=About(what, internal))
            rows = write_by_day(frame, str(book.staging))
            check_staged(book.staging, rows)
            batches.append(book.add(low, high, rows))
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


def stretches(view: StoreView, low: int) -> Iterator[tuple[int, int]]:
    """The batches of a run: what is left of each segment."""
    for _, first, end in view.log.segments(low, view.log.end):
        if first < end:
            yield first, end


def messages(spark: SparkSession, store: str, low: int, high: int, *, about: About) -> DataFrame:
    """The messages in a stretch of the commit log, with the columns of ``timermq.delivered``."""
    spark.dataSource.register(ArchiveSource)
    reader = spark.read.format(SOURCE).option("path", store).option("what", about.what)
    reader = reader.option("internal", str(about.internal).lower())
    return reader.option("low", str(low)).option("high", str(high)).load()


def check_staged(staging: Path, rows: int) -> None:
    """Compare what this process sees of a batch with what the tasks have written.

    Args:
        staging: The directory of the batch's files.
        rows: That the tasks have written.

    Raises:
        SparkJobError: Some are not there: an executor writes into a directory of its own machine.
    """
    found = sum(map(_rows_in, staging.glob(f"**/*{SUFFIX}")))
    if found != rows:
        raise SparkJobError(
            f"{staging}: expected the {rows} messages that the tasks have written, found {found}: "
            "the directory must be one that all executors and the driver see"
        )


def _rows_in(path: Path) -> int:
    # The stubs of pyarrow leave open what a path is.
    return parquet.read_metadata(path).num_rows  # pyright: ignore[reportUnknownMemberType]


def by_day(frame: DataFrame) -> DataFrame:
    """Messages as an archive has them: with the UTC day of storing and the topic's folder.

    A day and topic stand together, in the order of the log.

    Args:
        frame: With the columns of ``timermq.delivered``.
    """
    day = sql.expr(f"date_from_unix_date(cast(stored_ms div {_DAY_MS} as int))")
    placed = frame.withColumn("date", day).withColumn("topic_name", sql.col("topic"))
    return placed.repartition(*PARTITION_COLUMNS).sortWithinPartitions(
        *PARTITION_COLUMNS, "phy_offset"
    )


def write_by_day(frame: DataFrame, directory: str) -> int:
    """Write Parquet by the UTC day of storing and by topic, in the order of the log.

    Returns:
        The rows, as the tasks that wrote them have counted.
    """
    # Observed behind the exchange: what is retried before it does not count twice.
    written = Observation()
    counted = by_day(frame).observe(written, sql.count(sql.lit(1)).alias("rows"))
    Path(directory).parent.mkdir(parents=True, exist_ok=True)
    counted.write.partitionBy(*PARTITION_COLUMNS).mode("overwrite").parquet(directory)
    return int(written.get.get("rows", 0))
