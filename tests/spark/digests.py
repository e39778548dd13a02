"""What every table of a store says, small enough to be compared between two ways of running Spark.

``python -m spark.digests MASTER STORE`` prints it, one JSON object.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.registration import SOURCES

SETTINGS = {"spark.sql.shuffle.partitions": "2"}


def digests(spark: SparkSession, store: str) -> dict[str, list[int]]:
    """Of each table: how many rows, and the sum of their hashes, which no order changes."""
    found: dict[str, list[int]] = {}
    for source in SOURCES:
        frame = read_table(spark, source.name(), store, partitions=3)
        rows = frame.selectExpr("cast(xxhash64(*) as decimal(20)) as digest")
        (row,) = rows.selectExpr(
            "count(*) as count", "cast(coalesce(sum(digest), 0) as string) as total"
        ).collect()
        found[source.name()] = [int(str(row["count"])), int(str(row["total"]))]
    return found


def main() -> None:
    """Print the digests."""
    master, store = sys.argv[1:]
    spark = spark_session(master=master, settings=SETTINGS)
    register(spark)
    print(json.dumps(digests(spark, store)))  # noqa: T201 - a program of its own
    spark.stop()


if __name__ == "__main__":
    main()
