"""What tables and jobs make of a store, small enough to compare two ways of running Spark.

``python -m spark.drivers.digests MASTER STORE DIRECTORY BROKER NOW_MS`` prints it, one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.conftest import SETTINGS
from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.jobs.archive import archive, read_archive
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.jobs.rebuild import rebuild
from timermq.pipeline.spark.jobs.report import report
from timermq.pipeline.spark.sink.sink_options import NAME
from timermq.pipeline.spark.tables.registration import SOURCES

TOPIC = "Digests"
ROWS = 100
"""That are scheduled, each with its number as its key."""


def digests(
    spark: SparkSession, store: str, directory: Path, broker: str, now_ms: int
) -> dict[str, list[int | str]]:
    """How many rows each frame has, and the sum of their hashes, which no order changes.

    Frames are the tables, the findings of an audit, those of a report and an archive. Beside them
    stand how many messages became what for the audit, and the files of a rebuild.

    Args:
        spark: A session with all tables.
        store: A stopped one.
        directory: For what the jobs write; empty.
        broker: Where rows are scheduled.
        now_ms: The present, for the rebuild.
    """
    rebuild(spark, store, out=str(directory / "new"), now_ms=lambda: now_ms)
    archive(spark, store, str(directory / "archive"))
    schedule(spark, broker)
    frames = {
        source.name(): read_table(spark, source.name(), store, partitions=2) for source in SOURCES
    }
    audited = audit(spark, store)
    told = report(spark, store, begin_ms=0, drain_rate=1000)
    frames |= {
        "findings": audited.findings,
        "minutes": told.minutes,
        "topics": told.topics,
        "hot slots": told.hot_slots,
        "delays": told.delays,
        "lateness": told.lateness,
        "archive": read_archive(spark, str(directory / "archive")),
    }
    assert told.forecast is not None
    found = _digests(frames)
    found |= {f"audited {name}": [count] for name, count in audited.counts.items()}
    found |= {"late minutes": [len(told.forecast.rows())]}
    for path in filter(Path.is_file, (directory / "new").rglob("*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found[f"rebuilt {path.relative_to(directory)}"] = [digest]
    return found


def schedule(spark: SparkSession, broker: str) -> None:
    """Schedule the rows, for an hour from now, as a job named by Spark's application."""
    rows = spark.range(0, ROWS, 1, 2).selectExpr(
        f"'{TOPIC}' topic", "string(id) body", "3600000L delay_ms", "string(id) key"
    )
    job = spark.sparkContext.applicationId
    rows.write.format(NAME).mode("append").option("broker", broker).option("job", job).save()


def _digests(frames: Mapping[str, DataFrame]) -> dict[str, list[int | str]]:
    """Of all frames in one query: to plan and to start many takes longer than they do."""
    hashes = [
        frame.selectExpr(f"'{name}' AS name", "cast(xxhash64(*) AS decimal(20)) AS digest")
        for name, frame in frames.items()
    ]
    sums = reduce(DataFrame.union, hashes).groupBy("name")
    found = sums.agg(
        F.count("*").alias("rows"), F.sum("digest").cast("string").alias("total")
    ).collect()
    none: dict[str, list[int | str]] = {name: [0] for name in frames}
    return none | {str(row["name"]): [int(str(row["rows"])), str(row["total"])] for row in found}


def with_tests() -> str:
    """``PYTHONPATH`` of a process that imports tests, and what this one imports."""
    found = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, found))


def main() -> None:
    """Print the digests of a store as one line of JSON."""
    master, store, directory, broker, now_ms = sys.argv[1:]
    spark = spark_session(master=master, settings=SETTINGS)
    register(spark)
    found = digests(spark, store, Path(directory), broker, int(now_ms))
    print(json.dumps(found))  # noqa: T201 - a program of its own
    spark.stop()


if __name__ == "__main__":
    main()
