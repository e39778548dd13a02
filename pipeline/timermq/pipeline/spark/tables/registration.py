"""All tables of a store, made known to a session by one call."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from ..options import store_path
from ..sink import ScheduleSink
from .commit_log_table import CommitLogSource
from .consume_queue_table import ConsumeQueueSource
from .delivered_table import DeliveredSource
from .pending_table import PendingSource
from .source import TableSource
from .timer_log_table import TimerLogSource
from .wheel_table import WheelSource

SOURCES: tuple[type[TableSource], ...] = (
    CommitLogSource,
    ConsumeQueueSource,
    DeliveredSource,
    PendingSource,
    TimerLogSource,
    WheelSource,
)


def register(spark: SparkSession) -> None:
    """Make the tables and the sink known by their names: ``spark.read.format("timermq.timerlog")``.

    Once a session; ``spark.newSession()`` knows none of them.
    """
    for source in SOURCES:
        spark.dataSource.register(source)
    spark.dataSource.register(ScheduleSink)


def read_table(
    spark: SparkSession, name: str, store: str, **options: str | int | None
) -> DataFrame:
    """One table of a store as it is now.

    Args:
        spark: A session that the tables are registered in.
        name: ``timermq.…``.
        store: The directory, as driver and executors see it; a relative one is below this process's
            own.
        options: As in docs/pipeline.md; None is as not given.
    """
    # Java stays in the directory where the session began.
    reader = spark.read.format(name).option("path", store_path(store))
    for key, value in options.items():
        if value is not None:
            reader = reader.option(key, value if isinstance(value, str) else str(value))
    return reader.load()
