"""Which rules a position breaks: one row of ``by_position``, one rule after the other.

A waiting record has one end: a delivery, a roll, another moment, a delete that cancels it, or
the quarantine (from which it may leave later). What has none waits, as a unit of a slot that is
still to be read, or as an entry of the timer topic that has no unit yet.

A message cancelled or moved while it waits for a roll is rolled all the same: the delete names the
message by its order, and takes the copy out of its last slot. So the records of a message that was
rolled are judged together (``copies``).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from timermq.repair.store_rule import StoreRule

from .facts import Kind, Limits
from .finding import Judgement, text

LEAVES = "delivered + moved"
ENDS = f"{LEAVES} + rolled + cancelled + set_aside + left_out"
IS_TIMER = f"record_kind = {Kind.TIMER:d}"
IS_DELETE = f"record_kind IN ({Kind.CANCEL:d}, {Kind.NAMED_DELETE:d})"
IS_WAITING = f"(record_kind <= {Kind.NAMED_DELETE:d})"


def is_pending(limits: Limits) -> str:
    """Whether a waiting record without an end waits."""
    return f"(waits > 0 OR queue_offset >= {limits.queue_offset})"


def is_open(limits: Limits) -> str:
    """Whether nothing that names the position explains what became of a message.

    A record of which no timer can be made has no moment; RocketMQ drops it.
    """
    return f"({IS_TIMER} AND deliver_ms IS NOT NULL AND {ENDS} = 0 AND NOT {is_pending(limits)})"


def rules(limits: Limits) -> list[Judgement]:
    """The rules, but for what is lost."""
    found = [*_deliveries(), *_names(limits), *_units(limits)]
    if limits.late_ms is not None:
        found.append(_late(limits.late_ms))
    return found


def _deliveries() -> list[Judgement]:
    return [
        Judgement(
            rule=StoreRule.EARLY,
            when=f"{IS_TIMER} AND delivered > 0 AND first_ms < deliver_ms",
            expected=text("a delivery at %s or later", "deliver_ms"),
            found=text("one at %s, %s ms early", "first_ms", "deliver_ms - first_ms"),
        ),
        Judgement(
            rule=StoreRule.TWICE,
            when=f"record_kind IN ({Kind.TIMER:d}, {Kind.LEVEL:d}) "
            "AND delivered + greatest(moved, rolled) > 1",
            expected="'one record that delivers, moves or rolls the message'",
            found=text(
                "%s, from %s to %s in the commit log", f"{LEAVES} + rolled", "first_py", "last_py"
            ),
        ),
        Judgement(
            rule=StoreRule.CANCELLED,
            when=f"cancelled > 0 AND {LEAVES} > 0",
            expected=text("no delivery of what the delete at %s cancels", "cancel_py"),
            found=text("one at %s", "first_py"),
        ),
    ]


def _late(late_ms: int) -> Judgement:
    """Late is counted from the moment, or from the arrival of a message that was due then.

    What went through the quarantine waited for a person.
    """
    due_ms = "greatest(deliver_ms, stored_ms)"
    return Judgement(
        rule=StoreRule.LATE,
        when=f"{IS_TIMER} AND delivered > 0 AND cancelled + set_aside = 0 "
        f"AND first_ms > {due_ms} + {late_ms}",
        expected=text("a delivery by %s", f"{due_ms} + {late_ms}"),
        found=text("one at %s, %s ms late", "first_ms", f"first_ms - {due_ms}"),
    )


def _names(limits: Limits) -> list[Judgement]:
    """Records and units that name what is not there."""
    is_kept = f"key >= {limits.log_start}"
    return [
        Judgement(
            rule=StoreRule.ORPHAN,
            when=f"effect_py IS NOT NULL AND record_kind IS NULL AND {is_kept}",
            expected=text(
                "a waiting record at %s, which the record at %s names", "key", "effect_py"
            ),
            found="'none'",
        ),
        Judgement(
            rule=StoreRule.ORPHAN,
            when=f"delivered > 0 AND {IS_DELETE}",
            expected=text("a message at %s, which the record at %s delivers", "key", "first_py"),
            found="'a delete'",
        ),
        Judgement(
            rule=StoreRule.UNIT_DIFFERS,
            when=f"units > 0 AND NOT coalesce({IS_WAITING}, false) "
            f"AND {is_kept} AND key < {limits.log_end}",
            pos="unit_pos",
            expected=text("a record of the timer topic at %s", "key"),
            found="'none'",
        ),
        Judgement(
            rule=StoreRule.CLEANED,
            when=f"waits > unit_deletes AND NOT {is_kept}",
            pos="unit_pos",
            expected=text("the message at %s, which is still to come", "key"),
            found=text("a commit log that begins at %s", f"{limits.log_start}"),
        ),
    ]


def _units(limits: Limits) -> list[Judgement]:
    """Units that say something else than their records.

    The slot of an exact one is the record's; one that came late stands in a later slot.
    """
    out_ms = f"deliver_ms - 1 - pmod(deliver_ms - 1, {limits.precision_ms})"
    differs = (
        "unit_size_min != size",
        "unit_size_max != size",
        f"coalesce(exact_first_ms != {out_ms} OR exact_last_ms != {out_ms}, false)",
        f"coalesce(late_first_ms < {out_ms}, false)",
        f"(unit_deletes > 0) != ({IS_DELETE})",
        "disordered > 0",
    )
    return [
        Judgement(
            rule=StoreRule.UNIT_DIFFERS,
            when=f"units > 0 AND {IS_WAITING} AND deliver_ms IS NOT NULL "
            f"AND ({' OR '.join(differs)})",
            pos="unit_pos",
            expected=text("a unit of %s bytes in slot %s, as the record says", "size", out_ms),
            found=text(
                "one of %s bytes in slot %s",
                "unit_size_max",
                "coalesce(exact_last_ms, late_first_ms)",
            ),
        )
    ]


ORDER = Judgement(
    rule=StoreRule.DISORDER,
    when="before > delivered_offset",
    expected=text("the message behind queue offset %s, as it was sent", "before"),
    found=text("it at offset %s", "delivered_offset"),
)
"""For ``in_order``."""


def in_order(positions: DataFrame) -> DataFrame:
    """Deliveries, each with the queue offset of the message that was sent before it.

    Of one moment and queue; what was due when it came goes at once, past those that wait.
    """
    once = positions.where(
        f"{IS_TIMER} AND delivered = 1 AND set_aside = 0 AND stored_ms < deliver_ms"
    )
    sent = Window.partitionBy("delivered_queue", "deliver_ms").orderBy("order_py")
    return once.withColumn("before", F.lag("delivered_offset").over(sent))


IS_COPY = f"({IS_TIMER} AND (order_py < key OR is_rolled))"
"""Whether a waiting record is one of several of its message."""


def copies(positions: DataFrame, limits: Limits) -> DataFrame:
    """Messages that were rolled: what became of all their records together."""
    is_left = f"{LEAVES} > 0"
    waits = f"{ENDS} = 0 AND {is_pending(limits)}"
    told = {
        "left": f"count_if({is_left})",
        "left_at": f"array_join(sort_array(collect_list(if({is_left}, key, NULL))), ' and ')",
        "cancelled": "sum(cancelled)",
        "cancel_py": "min(cancel_py)",
        "both": f"count_if(cancelled > 0 AND {is_left})",
        "is_taken_back": "sum(cancelled + moved) > 0",
        "open": f"count_if({is_open(limits)})",
        "pending": f"count_if({waits})",
    }
    aggregates = [F.expr(one).alias(name) for name, one in told.items()]
    return positions.where(IS_COPY).groupBy("order_py").agg(*aggregates)


OF_COPIES = (
    Judgement(
        rule=StoreRule.TWICE,
        when="left > 1",
        phy_offset="order_py",
        expected="'one delivery of the message, whatever it was rolled to'",
        found=text("those of the records at %s", "left_at"),
    ),
    Judgement(
        rule=StoreRule.CANCELLED,
        when="cancelled > 0 AND left > 0 AND both = 0",
        phy_offset="order_py",
        expected=text("no delivery of what the delete at %s cancels", "cancel_py"),
        found=text("that of the record at %s", "left_at"),
    ),
)
"""For ``copies``."""


def counts(limits: Limits) -> dict[str, str]:
    """The counts of the waiting records by outcome, as aggregates over the rows."""
    is_left_out = f"left_out > 0 AND {ENDS} = left_out"
    return {
        "timers": f"count_if({IS_TIMER})",
        "delivered": f"count_if({IS_TIMER} AND delivered > 0)",
        "moved": f"count_if({IS_TIMER} AND delivered = 0 AND moved > 0)",
        "cancelled": f"count_if({IS_TIMER} AND {LEAVES} = 0 "
        f"AND (cancelled > 0 OR ({is_left_out} AND order_py = key)))",
        "copies": f"count_if({IS_TIMER} AND {is_left_out} AND order_py < key)",
        "rolled": f"count_if({IS_TIMER} AND {LEAVES} + cancelled = 0 AND rolled > 0)",
        "set_aside": f"count_if({IS_TIMER} AND {ENDS} = set_aside AND set_aside > 0)",
        "pending": f"count_if({IS_TIMER} AND {ENDS} = 0 AND {is_pending(limits)})",
        "open": f"count_if({is_open(limits)})",
        "deletes": f"count_if({IS_DELETE})",
        "cleaned": f"count_if(key < {limits.log_start} AND delivered > 0)",
        "named_deletes": f"count_if(record_kind = {Kind.NAMED_DELETE:d})",
        "foreign_units": "count_if(late_first_ms = deliver_ms - 1 - "
        f"pmod(deliver_ms - 1, {limits.precision_ms}))",
    }
