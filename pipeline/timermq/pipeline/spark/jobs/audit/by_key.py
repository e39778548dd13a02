r"""The facts known by names: RocketMQ's deliveries and rolls, and deletes as clients write them.

They name no position. RocketMQ's record of a message keeps the keys of the waiting one: real topic,
unique key, slot and number of rolls tell which it was, and where several have the same keys, how
many of them. A delete names a unique key, with or without the topic, of a message in its slot
and of its topic.

Names cost a reading of the log with its properties, so they are asked for only when there is
something to ask: a message that nothing else explains, a delete by name, a unit of RocketMQ's.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from timermq.repair.store_rule import StoreRule

from ....records.foreign_key import KEY_NAMES
from ....records.system_topics import TIMER_TOPIC
from ....records.timer_properties import DEQUEUE
from .facts import Kind, Limits
from .finding import Judgement, text
from .rules import ENDS, IS_TIMER, LEAVES, is_open, is_pending

TIMER_COLUMNS = (
    "phy_offset",
    "queue_id",
    "store_ms",
    "unique_id",
    "real_topic",
    "out_ms",
    "rolls",
    "is_delete",
    "delete_key",
    "delete_order",
)
"""Of ``timermq.commitlog``, of the timer topic alone."""
FOREIGN_COLUMNS = ("phy_offset", "topic", "store_ms", "origin_py", "properties", "damage")
"""Of ``timermq.commitlog``."""

_KEY = ["real_topic", "unique_id", "out_ms", "rolls"]


def foreign_ends(log: DataFrame) -> DataFrame:
    """RocketMQ's deliveries and rolls: by key how often, and when.

    Args:
        log: With ``FOREIGN_COLUMNS``.
    """
    theirs = log.where(
        f"damage IS NULL AND origin_py IS NULL AND contains(properties, X'{DEQUEUE.hex()}')"
    ).selectExpr("*", "string(properties) AS text")
    real_topic, unique_id, out_ms, rolls = map(_property, KEY_NAMES)
    told = theirs.selectExpr(
        "topic",
        "store_ms",
        f"topic != '{TIMER_TOPIC}' AS is_delivery",
        f"{real_topic} AS real_topic",
        f"{unique_id} AS unique_id",
        f"try_cast({out_ms} AS bigint) AS out_ms",
        f"coalesce(try_cast({rolls} AS bigint), 0) - if(topic = '{TIMER_TOPIC}', 1, 0) AS rolls",
    )
    # What consumers send back keeps the keys, and goes to another topic.
    ends = told.where(f"real_topic = topic OR topic = '{TIMER_TOPIC}'")
    return ends.groupBy(*_KEY).agg(
        F.expr("count(1) AS foreign"),
        F.expr("count_if(is_delivery) AS foreign_delivered"),
        F.expr("min(if(is_delivery, store_ms, NULL)) AS foreign_first_ms"),
        F.expr("max(if(is_delivery, store_ms, NULL)) AS foreign_last_ms"),
    )


def _property(name: bytes) -> str:
    return rf"regexp_extract(text, '(^|\\x02){name.decode()}\\x01([^\\x02]*)', 2)"


def named_timers(
    positions: DataFrame,
    timers: DataFrame,
    foreign: DataFrame,
    taken_back: DataFrame,
    limits: Limits,
) -> DataFrame:
    """The waiting records with what names tell of them, for ``rules``.

    Args:
        positions: What is known by position.
        timers: The timer topic, with ``TIMER_COLUMNS``.
        foreign: RocketMQ's deliveries and rolls.
        taken_back: Orders of messages of which the last copy does not arrive.
        limits: Of the store.
    """
    named = timers.where("queue_id = 0").selectExpr(
        "phy_offset AS key",
        "real_topic",
        "coalesce(unique_id, '') AS unique_id",
        "out_ms",
        "rolls",
        "store_ms AS named_ms",
        "if(is_delete AND delete_order IS NULL, delete_key, NULL) AS delete_key",
    )
    known = positions.join(named, "key").persist(StorageLevel.DISK_ONLY)
    # One whose own record could not be read cancelled nothing.
    deletes = known.where("delete_key IS NOT NULL AND set_aside = 0")
    by_name = deletes.groupBy("out_ms", "real_topic", "delete_key").agg(
        F.min("named_ms").alias("delete_ms")
    )
    waiting = known.where(f"record_kind <= {Kind.NAMED_DELETE:d}").drop("delete_key")
    for column, name in (
        ("by_key_ms", "unique_id"),
        ("by_topic_ms", "concat(real_topic, '+', unique_id)"),
    ):
        deleted = by_name.selectExpr(
            "out_ms", "real_topic", "delete_key AS name", f"delete_ms AS {column}"
        )
        waiting = waiting.withColumn("name", F.expr(name)).join(
            deleted, ["out_ms", "real_topic", "name"], "left"
        )
    waiting = waiting.join(taken_back.withColumn("is_taken_back", F.lit(True)), "order_py", "left")
    same = Window.partitionBy(*_KEY)
    return waiting.join(foreign, _KEY, "left").withColumns(
        {
            "delete_ms": F.expr("least(by_key_ms, by_topic_ms)"),
            "foreign": F.expr("coalesce(foreign, 0)"),
            "foreign_delivered": F.expr("coalesce(foreign_delivered, 0)"),
            "number": F.row_number().over(same.orderBy("key")),
            "of_name": F.count("key").over(same),
            "ended": F.sum(F.expr(f"if({LEAVES} + rolled > 0, 1, 0)")).over(same),
            "open_number": F.sum(F.expr(f"if({_is_open(limits)}, 1, 0)")).over(same.orderBy("key")),
        }
    )


def _is_open(limits: Limits) -> str:
    return f"({is_open(limits)} AND is_taken_back IS NULL)"


def is_lost(limits: Limits) -> str:
    """Whether no name explains an open message, and none can have been cleaned."""
    return f"({_is_unexplained(limits)} AND coalesce(order_py, key) >= {limits.log_start})"


def _is_unexplained(limits: Limits) -> str:
    return f"({_is_open(limits)} AND delete_ms IS NULL AND open_number > foreign)"


def counts(limits: Limits) -> dict[str, str]:
    """The counts that names explain, as aggregates over the rows."""
    is_foreign = f"{_is_open(limits)} AND delete_ms IS NULL AND open_number <= foreign"
    waits = f"{IS_TIMER} AND {ENDS} = 0 AND {is_pending(limits)} AND is_taken_back IS NULL"
    return {
        "by_delete": f"count_if({_is_open(limits)} AND delete_ms IS NOT NULL)",
        "will_be_cancelled": f"count_if({waits} AND delete_ms IS NOT NULL)",
        "foreign": f"count_if({is_foreign})",
        # Of messages with the same keys it is not known which: the first ones count as delivered.
        "foreign_delivered": f"count_if({is_foreign} AND open_number <= foreign_delivered)",
        "unknown": f"count_if({_is_unexplained(limits)} AND NOT {is_lost(limits)})",
    }


def rules(limits: Limits) -> list[Judgement]:
    """The rules for what is known by names."""
    found = [
        Judgement(
            rule=StoreRule.LOST,
            when=is_lost(limits),
            pos="unit_pos",
            expected=text(
                "a delivery of the message due at %s, or a unit that waits", "deliver_ms"
            ),
            found=text("none; slots before %s are read; units: %s", f"{limits.read_ms}", "units"),
        ),
        Judgement(
            rule=StoreRule.CANCELLED,
            when=f"{IS_TIMER} AND delivered > 0 AND set_aside = 0 AND foreign = 0 "
            "AND delete_ms < out_ms AND stored_ms < out_ms",
            expected=text("no delivery: a delete was stored at %s", "delete_ms"),
            found=text("one at %s", "first_py"),
        ),
        Judgement(
            rule=StoreRule.EARLY,
            when=f"{IS_TIMER} AND number = 1 AND foreign_first_ms < out_ms",
            expected=text("a delivery by RocketMQ in slot %s or later", "out_ms"),
            found=text("one at %s", "foreign_first_ms"),
        ),
    ]
    if limits.log_start == 0:
        found.append(
            Judgement(
                rule=StoreRule.TWICE,
                when=f"{IS_TIMER} AND number = 1 AND foreign + ended > of_name",
                expected=text("%s deliveries or moves of as many records", "of_name"),
                found=text("%s of ours, %s of RocketMQ", "ended", "foreign"),
            )
        )
    if limits.late_ms is not None:
        due_ms = f"greatest(deliver_ms, stored_ms) + {limits.late_ms}"
        found.append(
            Judgement(
                rule=StoreRule.LATE,
                when=f"{IS_TIMER} AND of_name = 1 AND foreign_last_ms > {due_ms}",
                expected=text("a delivery by %s", due_ms),
                found=text("one by RocketMQ at %s", "foreign_last_ms"),
            )
        )
    return found


def unmatched(foreign: DataFrame, timers: DataFrame) -> DataFrame:
    """RocketMQ's deliveries and rolls of which no waiting record is left."""
    names = timers.selectExpr(
        "real_topic", "coalesce(unique_id, '') AS unique_id", "out_ms", "rolls"
    )
    return foreign.join(names, _KEY, "left_anti")
