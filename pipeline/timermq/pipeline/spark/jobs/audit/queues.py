"""Queues against the commit log: the same records, one a unit, without a gap.

Both sides are added up while they are read. Where the sums are the same, so are the sides; if not,
they are compared unit by unit, which takes another reading of the log.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from timermq.repair.store_rule import StoreRule

from .finding import Judgement, broken, text

UNIT_COLUMNS = ("topic", "queue_id", "queue_offset", "phy_offset", "size")
"""Of ``timermq.consumequeue``."""
LOG_COLUMNS = (
    "phy_offset",
    "total_size",
    "queue_id",
    "queue_offset",
    "sys_flag",
    "store_ms",
    "topic",
    "damage",
)
"""Of ``timermq.commitlog``, for the comparison unit by unit."""


@attrs.frozen(kw_only=True)
class Settled:
    """Which records must have their units, which is not all of them after a kill."""

    before_py: int
    """Records from here on may lack their units, and units their records."""
    before_ms: int | None = None
    """… and records stored from here on; of RocketMQ's stores, which publish no position."""
    deleted_topics: Mapping[str, int] = attrs.Factory(dict[str, int])
    """Topics that were deleted, each with the end of the log at that time."""

    @property
    def records(self) -> str:
        """Which records have a unit: those of no open transaction, nor of a deleted topic."""
        gone = "".join(
            f" AND NOT (topic = {literal(topic)} AND phy_offset < {end})"
            for topic, end in sorted(self.deleted_topics.items())
        )
        is_queued = "damage IS NULL AND (sys_flag & 12) IN (0, 8)"
        return f"({is_queued} AND phy_offset < {self.before_py}{gone})"

    @property
    def units(self) -> str:
        """Which units have a record; RocketMQ's light queues show those of other topics."""
        return f"(NOT startswith(topic, '%LMQ%') AND phy_offset < {self.before_py})"


def record_sums(settled: Settled) -> dict[str, str]:
    """The sums over the records of the log, as aggregates."""
    return {
        "queued": f"count_if({settled.records})",
        "queued_sum": f"bit_xor(if({settled.records}, {_hash('total_size')}, 0))",
    }


def unit_sums(units: DataFrame, settled: Settled) -> tuple[int, int, bool]:
    """The sums over the queues: units, their sum, and whether none has a gap."""
    by_queue = units.where(settled.units).groupBy("topic", "queue_id")
    queues = by_queue.agg(
        F.expr("count(1) AS count"),
        F.expr(f"bit_xor({_hash('size')}) AS sum"),
        F.expr("max(queue_offset) - min(queue_offset) + 1 = count(1) AS is_dense"),
    )
    (row,) = queues.selectExpr(
        "coalesce(sum(count), 0) AS count",
        "coalesce(bit_xor(sum), 0) AS sum",
        "coalesce(every(is_dense), true) AS is_dense",
    ).collect()
    return int(row["count"]), int(row["sum"]), bool(row["is_dense"])


def compared(log: DataFrame, units: DataFrame, settled: Settled) -> DataFrame:
    """Findings, unit by unit.

    Args:
        log: With ``LOG_COLUMNS``.
        units: With ``UNIT_COLUMNS``.
        settled: What is to be compared.
    """
    shared = "topic, queue_id, queue_offset"
    records = log.where(settled.records).selectExpr(
        *shared.split(", "),
        "phy_offset AS record_py",
        "total_size AS record_size",
        "store_ms",
        "bigint(NULL) AS unit_py",
        "int(NULL) AS unit_size",
    )
    shown = units.where(settled.units).selectExpr(
        *shared.split(", "),
        "bigint(NULL) AS record_py",
        "int(NULL) AS record_size",
        "bigint(NULL) AS store_ms",
        "phy_offset AS unit_py",
        "size AS unit_size",
    )
    sides = records.unionByName(shown).groupBy(*shared.split(", "))
    places = sides.agg(
        F.expr("count(record_py) AS records"),
        F.expr("count(unit_py) AS units"),
        *(F.max(name).alias(name) for name in ("record_py", "record_size", "store_ms")),
        *(F.max(name).alias(name) for name in ("unit_py", "unit_size")),
    )
    before = F.lag("queue_offset").over(
        Window.partitionBy("topic", "queue_id").orderBy("queue_offset")
    )
    return broken(places.withColumn("before", before), _rules(settled))


def _rules(settled: Settled) -> list[Judgement]:
    is_old = "true" if settled.before_ms is None else f"store_ms < {settled.before_ms}"
    place = {"topic": "topic", "queue_id": "queue_id", "queue_offset": "queue_offset"}
    unit = text("a unit of the record at %s, of %s bytes", "record_py", "record_size")
    return [
        Judgement(
            rule=StoreRule.QUEUE_DIFFERS,
            when=f"records > 0 AND units = 0 AND {is_old}",
            phy_offset="record_py",
            expected=unit,
            found="'none'",
            **place,
        ),
        Judgement(
            rule=StoreRule.QUEUE_DIFFERS,
            when="records = 0 AND units > 0",
            phy_offset="unit_py",
            expected=text("a record of this queue and offset at %s", "unit_py"),
            found="'none'",
            **place,
        ),
        Judgement(
            rule=StoreRule.QUEUE_DIFFERS,
            when="records > 0 AND units > 0 AND (records > 1 OR record_py != unit_py "
            "OR record_size != unit_size)",
            phy_offset="record_py",
            expected=unit,
            found=text("one of %s, of %s bytes; records: %s", "unit_py", "unit_size", "records"),
            **place,
        ),
        Judgement(
            rule=StoreRule.RECORD_MISSING,
            when="queue_offset > before + 1",
            phy_offset="coalesce(record_py, unit_py)",
            expected=text("queue offset %s behind %s", "before + 1", "before"),
            found=text("%s", "queue_offset"),
            **place,
        ),
    ]


def literal(value: str) -> str:
    """A text as Spark's SQL writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _hash(size: str) -> str:
    return f"xxhash64(topic, queue_id, queue_offset, phy_offset, {size})"
