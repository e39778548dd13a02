"""Cells: messages of one topic and one second, which a report is made of.

Each table is read once. What is sorted, joined and kept afterwards is as many rows as there are
cells, however many messages there are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..histogram import bucket
from ..tables.declaration import BROKER

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PENDING_COLUMNS = "deliver_ms,slot_ms,topic_hash,size"
UNIT_COLUMNS = "write_ms,topic_hash,slot_ms,deliver_ms,is_first,is_roll,is_delete"
DELIVERED_COLUMNS = "topic,stored_ms,deliver_ms,lateness_ms"
"""The columns that are read."""


def due_cells(pending: DataFrame, precision_ms: int) -> DataFrame:
    """The due messages: topic_hash, second_ms, rolls_ms, count, bytes, first_ms, last_ms.

    ``rolls_ms`` is the hour in which messages are enqueued again that wait in a slot on the way,
    null for others. Of a table with the column ``broker`` each cell is of one, and has it.

    Args:
        pending: ``timermq.pending``.
        precision_ms: Width of a slot.
    """
    rolls_at = F.expr(f"if(slot_ms + {precision_ms} < deliver_ms, slot_ms, null)")
    return (
        pending.withColumn("rolls_at", rolls_at)
        .groupBy(
            "topic_hash",
            floored("deliver_ms", 1000).alias("second_ms"),
            floored("rolls_at", HOUR_MS).alias("rolls_ms"),
            *(name for name in pending.columns if name == BROKER.name),
        )
        .agg(
            F.count("*").alias("count"),
            F.sum("size").alias("bytes"),
            F.min("deliver_ms").alias("first_ms"),
            F.max("deliver_ms").alias("last_ms"),
        )
    )


def planned_cells(units: DataFrame, precision_ms: int) -> DataFrame:
    """How far ahead messages were sent: topic_hash, is_roll, delay_ms (bucket), count, most_ms.

    Args:
        units: ``timermq.timerlog``. A unit that RocketMQ wrote tells neither its moment, for which
            the end of its slot is taken, nor whether it is the message's first: each counts.
        precision_ms: Width of a slot.
    """
    end = f"if(is_roll, slot_ms, coalesce(deliver_ms, slot_ms + {precision_ms}))"
    return (
        units.where("not is_delete and coalesce(is_first, true)")
        .withColumn("delay", F.expr(f"greatest(0, {end} - write_ms)"))
        .groupBy("topic_hash", "is_roll", bucket("delay").alias("delay_ms"))
        .agg(F.count("*").alias("count"), F.max("delay").alias("most_ms"))
    )


def delivered_cells(delivered: DataFrame) -> DataFrame:
    """The deliveries: topic, hour_ms, second_ms, late_ms (bucket), count, waited, most_ms.

    ``waited`` are those that were due when the second before began.

    Args:
        delivered: ``timermq.delivered``.
    """
    return (
        delivered.where("lateness_ms is not null")
        .groupBy(
            "topic",
            floored("deliver_ms", HOUR_MS).alias("hour_ms"),
            floored("stored_ms", 1000).alias("second_ms"),
            bucket("lateness_ms").alias("late_ms"),
        )
        .agg(
            F.count("*").alias("count"),
            F.expr("count_if(deliver_ms <= (floor(stored_ms / 1000) - 1) * 1000)").alias("waited"),
            F.max("lateness_ms").alias("most_ms"),
        )
    )


def floored(name: str, span_ms: int) -> Column:
    """The beginning of the span that a moment lies in."""
    return F.expr(f"{name} - pmod({name}, {span_ms}L)")
