"""Milliseconds in buckets, so that any number of messages is a few thousand rows.

Below 128 ms a bucket is a millisecond; above, each doubling has 64 of them. A bucket is named by
its greatest value: percentiles made of buckets are at most 1.6 % too high, never too low.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

EARLY = -1
"""The bucket of all that is below nothing."""
PERCENTS = (50, 90, 99)
"""Which percentiles a report has."""


def bucket(value: str) -> Column:
    """The bucket of a column of milliseconds.

    Args:
        value: The column, or an expression of SQL.
    """
    return F.expr(
        f"""case when ({value}) < 0 then {EARLY}L
                 when ({value}) < 128 then ({value})
                 else shiftleft(shiftright(({value}), int(log2({value})) - 6) + 1,
                                int(log2({value})) - 6) - 1 end"""
    )


def spread(value: str, count: str, most: str) -> list[Column]:
    """Percentiles of rows that are buckets, and the greatest value: ``p50_ms`` … ``max_ms``.

    Args:
        value: The column of buckets.
        count: … of how many values each row stands for.
        most: … of the greatest of these.
    """
    return [
        *(
            F.expr(
                f"least(cast(ceil(percentile({value}, {percent / 100}, {count})) as bigint), "
                f"max({most}))"
            ).alias(f"p{percent}_ms")
            for percent in PERCENTS
        ),
        F.max(most).alias("max_ms"),
    ]
