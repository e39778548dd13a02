"""The input of an audit: the tables of a store, or frames made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...store_view import StoreView
from ...tables.registration import read_table

SMALL_BYTES = 32 << 20
"""A smaller log is read by one task: starting more takes longer."""


class Tables(Protocol):
    """The tables that an audit reads, of a store or of a test."""

    @property
    def spark(self) -> SparkSession:
        """The session that they are read in."""
        ...

    def log(self, columns: Sequence[str], *, topic: str | None = None) -> DataFrame:
        """``timermq.commitlog``, of all topics or one; what is damaged is told."""
        ...

    def units(self, columns: Sequence[str]) -> DataFrame:
        """These columns of ``timermq.timerlog``, a row a unit."""
        ...

    def queue_units(self, columns: Sequence[str]) -> DataFrame:
        """These columns of ``timermq.consumequeue``, a row a unit."""
        ...


@attrs.frozen(kw_only=True)
class StoreTables:
    """Those of a store, as it is at each question: only the columns asked for are read."""

    spark: SparkSession
    view: StoreView
    timer_precision_ms: int | None

    def log(self, columns: Sequence[str], *, topic: str | None = None) -> DataFrame:
        """Columns of the commit log, as ``Tables.log`` says."""
        return self._table("commitlog", columns, damage="report", topics=topic)

    def units(self, columns: Sequence[str]) -> DataFrame:
        """Columns of the timer log, as ``Tables.units`` says."""
        return self._table("timerlog", columns)

    def queue_units(self, columns: Sequence[str]) -> DataFrame:
        """Columns of the consume queues, as ``Tables.queue_units`` says."""
        return self._table("consumequeue", columns)

    def _table(self, name: str, columns: Sequence[str], **options: str | None) -> DataFrame:
        log = self.view.log
        return read_table(
            self.spark,
            f"timermq.{name}",
            self.view.root,
            columns=",".join(columns),
            timer_precision_ms=self.timer_precision_ms,
            partitions=1 if log.end - log.start < SMALL_BYTES else None,
            **options,
        )


@attrs.frozen(kw_only=True)
class GivenTables:
    """Frames with their columns, wherever they are from."""

    commit_log: DataFrame
    timer_log: DataFrame
    queues: DataFrame

    @property
    def spark(self) -> SparkSession:
        """The session that the frames belong to."""
        return self.commit_log.sparkSession

    def log(self, columns: Sequence[str], *, topic: str | None = None) -> DataFrame:
        """Columns of the frame ``commit_log``, as ``Tables.log`` says."""
        rows = self.commit_log if topic is None else self.commit_log.where(F.col("topic") == topic)
        return rows.select(*columns)

    def units(self, columns: Sequence[str]) -> DataFrame:
        """Columns of the frame ``timer_log``, as ``Tables.units`` says."""
        return self.timer_log.select(*columns)

    def queue_units(self, columns: Sequence[str]) -> DataFrame:
        """Columns of the frame ``queues``, as ``Tables.queue_units`` says."""
        return self.queues.select(*columns)
