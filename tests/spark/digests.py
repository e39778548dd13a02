"""What tables and jobs say of a store, small enough to compare two ways of running Spark.

``python -m spark.digests MASTER STORE`` prints it, one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.conftest import SETTINGS
from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.jobs.report import report
from timermq.pipeline.spark.registration import SOURCES


def digests(spark: SparkSession, store: str) -> dict[str, list[int]]:
    """How many rows each frame has, and the sum of their hashes, which no order changes.

    Frames are the tables, the findings of an audit, and those of a report; beside them stands how
    many messages became what.
    """
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
    }
    assert told.forecast is not None
    counts = {f"audited {name}": [count, 0] for name, count in audited.counts.items()}
    return _digests(frames) | counts | {"late minutes": [len(told.forecast.rows()), 0]}


def _digests(frames: Mapping[str, DataFrame]) -> dict[str, list[int]]:
    """Of all frames in one query: to plan and to start many takes longer than they do."""
    hashes = [
        frame.selectExpr(f"'{name}' AS name", "cast(xxhash64(*) AS decimal(20)) AS digest")
        for name, frame in frames.items()
    ]
    sums = reduce(DataFrame.union, hashes).groupBy("name")
    found = sums.agg(
        F.count("*").alias("rows"), F.sum("digest").cast("string").alias("total")
    ).collect()
    return {name: [0, 0] for name in frames} | {
        str(row["name"]): [int(str(row["rows"])), int(str(row["total"]))] for row in found
    }


def main() -> None:
    """Print the digests."""
    master, store = sys.argv[1:]
    spark = spark_session(master=master, settings=SETTINGS)
    register(spark)
    print(json.dumps(digests(spark, store)))  # noqa: T201 - a program of its own
    spark.stop()


if __name__ == "__main__":
    main()
