"""What tables and an audit say of a store, small enough to compare two ways of running Spark.

``python -m spark.digests MASTER STORE`` prints it, one JSON object.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession

from spark.conftest import SETTINGS
from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.registration import SOURCES


def digests(spark: SparkSession, store: str) -> dict[str, list[int]]:
    """How many rows each table has, and the sum of their hashes, which no order changes.

    Of an audit the same of its findings, and how many messages became what.
    """
    found: dict[str, list[int]] = {}
    for source in SOURCES:
        found[source.name()] = _digest(read_table(spark, source.name(), store, partitions=3))
    audited = audit(spark, store)
    found["findings"] = _digest(audited.findings)
    return found | {f"audited {name}": [count, 0] for name, count in audited.counts.items()}


def _digest(frame: DataFrame) -> list[int]:
    rows = frame.selectExpr("cast(xxhash64(*) as decimal(20)) as digest")
    (row,) = rows.selectExpr(
        "count(*) as count", "cast(coalesce(sum(digest), 0) as string) as total"
    ).collect()
    return [int(str(row["count"])), int(str(row["total"]))]


def main() -> None:
    """Print the digests."""
    master, store = sys.argv[1:]
    spark = spark_session(master=master, settings=SETTINGS)
    register(spark)
    print(json.dumps(digests(spark, store)))  # noqa: T201 - a program of its own
    spark.stop()


if __name__ == "__main__":
    main()
