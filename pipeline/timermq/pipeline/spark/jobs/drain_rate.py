"""How fast a broker delivers: measured from what it has delivered."""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@attrs.frozen(kw_only=True)
class DrainRate:
    """How fast the broker delivers when messages wait."""

    per_second: float
    full_seconds: int | None
    """It is the median of as many seconds in which messages waited all the time; None: given."""


def measured_rate(cells: DataFrame) -> DrainRate | None:
    """How many messages a second were delivered while others waited.

    A second is full when most of what the next one delivered was due as it began: then the broker
    had something to do all the time. The median of the full ones counts, so that neither a pause
    nor the best second is taken for the usual.

    Returns:
        None when there was no such second: the broker was never behind, or nothing was delivered.
    """
    seconds = cells.groupBy("second_ms").agg(
        F.sum("count").alias("count"), F.sum("waited").alias("waited")
    )
    following = seconds.where("2 * waited >= count").select(
        F.expr("second_ms - 1000").alias("second_ms")
    )
    row = (
        seconds.join(following, "second_ms")
        .agg(F.expr("percentile(count, 0.5)").alias("rate"), F.count("*").alias("full"))
        .first()
    )
    if row is None or not row["full"]:
        return None
    return DrainRate(per_second=float(row["rate"]), full_seconds=int(row["full"]))
