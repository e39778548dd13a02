"""All tables of a store, made known to a session by one call."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from ..moment_text import Moment, option_text
from ..options import Stores, store_patterns
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
    spark: SparkSession, name: str, store: Stores, **options: Moment | None
) -> DataFrame:
    """One table of a store, or of several, as it is now.

    Args:
        spark: A session that the tables are registered in.
        name: ``timermq.…``.
        store: The directory, as driver and executors see it, a URL of an object store, a pattern,
            ``NAME=DIR``, or a list of these; a relative one is below this process's own.
        options: As in docs/pipeline.md; None is as not given, moments may be datetimes with a zone.

    Raises:
        SparkJobError: A store or a moment is none that can be meant.
    """
    return spark.read.format(name).options(**_texts(name, store, options)).load()


def read_stream(
    spark: SparkSession, name: str, store: Stores, **options: Moment | None
) -> DataFrame:
    """One table of a store, or of several, as a stream; as ``read_table``.

    Raises:
        SparkJobError: The table is no stream, which ``readStream`` finds when a query starts.
    """
    for source in SOURCES:
        if source.name() == name and not source.is_stream:
            raise source.no_stream()
    return spark.readStream.format(name).options(**_texts(name, store, options)).load()


def _texts(name: str, store: Stores, options: Mapping[str, Moment | None]) -> dict[str, str]:
    """The options as Spark takes them; Java stays in the directory where the session began."""
    stores = [pattern.text for pattern in store_patterns(store)]
    found = {"path": stores[0]} if len(stores) == 1 else {"paths": json.dumps(stores)}
    return found | {
        key: option_text(name, key, value) for key, value in options.items() if value is not None
    }
