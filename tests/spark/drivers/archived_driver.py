"""A reader of an archive in an object store, whose credentials its environment has.

``python -m spark.drivers.archived_driver URL`` prints an object: all ``rows``, in the order of the
log, and how many each of the ``days`` has.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame

from spark.conftest import SETTINGS
from timermq.pipeline.spark import spark_session
from timermq.pipeline.spark.jobs.archive import read_archive


def shown_rows(archived: DataFrame) -> list[dict[str, Any]]:
    """The rows of an archive in the order of the log, as JSON has them."""
    rows = sorted(archived.collect(), key=lambda row: int(row["phy_offset"]))
    shown: list[dict[str, Any]] = json.loads(
        json.dumps([row.asDict() for row in rows], default=_shown)
    )
    return shown


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def main() -> None:
    """Read the archive twice: all of it, then two columns."""
    (url,) = sys.argv[1:]
    spark = spark_session(master="local[2]", settings=SETTINGS)
    some = read_archive(spark, url, ["date", "phy_offset"])
    days = {str(row["date"]): row["count"] for row in some.groupBy("date").count().collect()}
    found = {"rows": shown_rows(read_archive(spark, url)), "days": days}
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
