"""The facts about each waiting record: rows that name its position, gathered by it.

One reading of the commit log and one of the timer log give facts, each with the position that it
is about. All facts of a position come together in one exchange and make one row (a full outer join
of three tables, with any number of rows on each side). A fact is five numbers, whatever its kind:

=================  =================  ===========  ==========  ==========  ============  =====
kind               position           a            b           c           d             e
=================  =================  ===========  ==========  ==========  ============  =====
TIMER … LEVEL      its own            deliver_ms   store_ms    order_py    queue_offset  size
DELIVERED … ASIDE  of its origin      store_ms     its own     queue       queue_offset  –
FIRST              of its order       –            –           –           –             –
UNIT               of its record      pos          slot_ms     size_py     flags         –
=================  =================  ===========  ==========  ==========  ============  =====
"""

from __future__ import annotations

import enum
from itertools import product

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from timermq.timerstore.delay_levels import SCHEDULE_TOPIC

from ....records.record_effect import EFFECTS, NOBODY, OTHERWISE, Effect, Mark
from ....records.system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC, TIMER_TOPIC

LOG_COLUMNS = (
    "phy_offset",
    "total_size",
    "queue_id",
    "queue_offset",
    "sys_flag",
    "store_ms",
    "body_crc",
    "topic",
    "deliver_ms",
    "order_py",
    "rolls",
    "is_delete",
    "delete_key",
    "delete_order",
    "origin_py",
    "body",
    "damage",
)
"""Of ``timermq.commitlog``; nothing else of it is read unless something is wrong."""
UNIT_COLUMNS = ("pos", "offset_py", "size_py", "slot_ms", "order_py", "is_roll", "is_delete")
"""Of ``timermq.timerlog``."""

FACT_COLUMNS = ("key", "kind", "a", "b", "c", "d", "e")

FACTS_PER_PARTITION = 600_000
"""A partition's rows fit the memory of a task with 2 GB for all of them; beyond it Spark spills."""
RECORD_BYTES = 200
"""A record is rarely smaller: by it partitions are counted before anything is read."""


BEFORE_EFFECTS = 3
"""Kinds of what a record is stand before those of what it does to its origin."""


class Kind(enum.IntEnum):
    """The meaning of a fact for the record at its position."""

    TIMER = 0
    """A message waits here."""
    CANCEL = 1
    """A delete of ours waits here: it names the message by its order."""
    NAMED_DELETE = 2
    """A delete waits here that names a unique key, as RocketMQ's clients write it."""
    LEVEL = 3
    """A message of RocketMQ's waits here for a classic level."""
    DELIVERED = BEFORE_EFFECTS + Effect.DELIVERED
    """The record here is on its topic."""
    MOVED = BEFORE_EFFECTS + Effect.MOVED
    """… waits for another moment, or was taken over from a level: a new message, with its order."""
    ROLLED = BEFORE_EFFECTS + Effect.ROLLED
    """… waits for its next leg."""
    CANCELLED = BEFORE_EFFECTS + Effect.CANCELLED
    """… was cancelled."""
    SET_ASIDE = BEFORE_EFFECTS + Effect.SET_ASIDE
    """… is or was in quarantine."""
    LEFT_OUT = BEFORE_EFFECTS + Effect.LEFT_OUT
    """… was left out when its slot was read, because a delete names its message."""
    FIRST = 10
    """The message whose first record is here was rolled, once or more."""
    UNIT = 11
    """A unit names the record here."""


FLAG_DELETE, FLAG_EXACT, FLAG_ROLL, FLAG_DISORDERED = 1, 2, 4, 8


@attrs.frozen(kw_only=True)
class Limits:
    """Between which positions and times a store can be judged."""

    log_start: int
    """Records before it are cleaned."""
    log_end: int
    """Records behind it are not to be believed yet."""
    read_ms: int
    """Slots before it have reached their topics."""
    queue_offset: int
    """Entries of the timer topic before it have units."""
    precision_ms: int
    late_ms: int | None = None
    """A delivery is late beyond it; None: lateness is not judged."""


def partition_count(log_bytes: int, unit_count: int) -> int:
    """Into how many parts the facts of such logs are divided."""
    facts = log_bytes // RECORD_BYTES + unit_count
    return 1 + facts // FACTS_PER_PARTITION


IS_ENTRY = f"(topic = '{TIMER_TOPIC}' AND queue_id = 0)"
_HAS = {
    Mark.IN_QUARANTINE: f"topic = '{QUARANTINE_TOPIC}'",
    Mark.IN_LEFT_OUT: f"topic = '{CANCEL_MARK_TOPIC}'",
    Mark.ELSEWHERE: f"NOT {IS_ENTRY}",
    Mark.HAS_ROLLS: "rolls > 0",
    Mark.NAMES_NOBODY: f"delete_key = '{NOBODY.decode()}'",
    Mark.IS_DELETE: "is_delete",
}
"""The marks of a record as expressions over ``LOG_COLUMNS``."""


def effect_sql() -> str:
    """``effect_of`` as an expression over ``LOG_COLUMNS``: the number of an ``Effect``."""
    decided = " ".join(f"WHEN {_HAS[mark]} THEN {effect:d}" for mark, effect in EFFECTS.items())
    return f"CASE {decided} ELSE {OTHERWISE:d} END"


def record_facts(log: DataFrame) -> DataFrame:
    """The facts of the commit log.

    Args:
        log: With ``LOG_COLUMNS``.
    """
    own = f"""CASE
        WHEN topic = '{SCHEDULE_TOPIC}' THEN {Kind.LEVEL:d}
        WHEN NOT ({IS_ENTRY}) THEN NULL
        WHEN NOT coalesce(is_delete, false) THEN {Kind.TIMER:d}
        WHEN origin_py IS NULL AND delete_order IS NULL THEN {Kind.NAMED_DELETE:d}
        ELSE {Kind.CANCEL:d} END"""
    effect = f"{BEFORE_EFFECTS} + {effect_sql()}"
    is_rolled = f"{IS_ENTRY} AND rolls > 0 AND NOT is_delete"
    told = (f"({own}) IS NOT NULL", "origin_py IS NOT NULL", is_rolled)
    mask = " + ".join(f"if({one}, {1 << bit}, 0)" for bit, one in enumerate(told))
    # What a record tells is one of eight lists, which are constants to Spark.
    lists = ", ".join(
        f"array({', '.join(str(bit) for bit, is_told in enumerate(reversed(tells)) if is_told)})"
        for tells in product((False, True), repeat=len(told))
    )
    listed = log.selectExpr("*", f"explode(element_at(array({lists}), {mask} + 1)) AS told")
    return listed.selectExpr(
        "CASE told WHEN 1 THEN origin_py WHEN 2 THEN order_py ELSE phy_offset END AS key",
        f"CASE told WHEN 0 THEN {own} WHEN 1 THEN {effect} ELSE {Kind.FIRST:d} END AS kind",
        "CASE told WHEN 0 THEN deliver_ms WHEN 1 THEN store_ms END AS a",
        "CASE told WHEN 0 THEN store_ms WHEN 1 THEN phy_offset END AS b",
        "CASE told WHEN 0 THEN order_py WHEN 1 THEN xxhash64(topic, queue_id) END AS c",
        "CASE told WHEN 2 THEN NULL ELSE queue_offset END AS d",
        "CASE told WHEN 0 THEN bigint(total_size) END AS e",
    )


def unit_facts(units: DataFrame) -> DataFrame:
    """The facts of the timer log.

    Args:
        units: With ``UNIT_COLUMNS``.
    """
    flags = (
        f"if(is_delete, {FLAG_DELETE}, 0) + if(order_py IS NOT NULL, {FLAG_EXACT}, 0) "
        f"+ if(is_roll, {FLAG_ROLL}, 0) + if(order_py > offset_py, {FLAG_DISORDERED}, 0)"
    )
    return units.selectExpr(
        "offset_py AS key",
        f"{Kind.UNIT:d} AS kind",
        "pos AS a",
        "slot_ms AS b",
        "bigint(size_py) AS c",
        f"bigint({flags}) AS d",
        "bigint(NULL) AS e",
    )


def by_position(facts: DataFrame, limits: Limits, partitions: int) -> DataFrame:
    """All that is told of each position, a row a position.

    Args:
        facts: Of both logs.
        limits: Of the store.
        partitions: Into how many parts they are divided.
    """
    is_record = f"kind <= {Kind.LEVEL:d}"
    goes_on = f"kind BETWEEN {Kind.DELIVERED:d} AND {Kind.ROLLED:d}"
    columns = {
        "record_kind": f"min(if({is_record}, kind, NULL))",
        "deliver_ms": f"max(if({is_record}, a, NULL))",
        "stored_ms": f"max(if({is_record}, b, NULL))",
        "order_py": f"max(if({is_record}, c, NULL))",
        "queue_offset": f"max(if({is_record}, d, NULL))",
        "size": f"max(if({is_record}, e, NULL))",
        "delivered": f"count_if(kind = {Kind.DELIVERED:d})",
        "first_ms": f"min(if(kind = {Kind.DELIVERED:d}, a, NULL))",
        "first_py": f"min(if({goes_on}, b, NULL))",
        "last_py": f"max(if({goes_on}, b, NULL))",
        "delivered_queue": f"max(if(kind = {Kind.DELIVERED:d}, c, NULL))",
        "delivered_offset": f"max(if(kind = {Kind.DELIVERED:d}, d, NULL))",
        "moved": f"count_if(kind = {Kind.MOVED:d})",
        "rolled": f"count_if(kind = {Kind.ROLLED:d})",
        "cancelled": f"count_if(kind = {Kind.CANCELLED:d})",
        "cancel_py": f"min(if(kind = {Kind.CANCELLED:d}, b, NULL))",
        "set_aside": f"count_if(kind = {Kind.SET_ASIDE:d})",
        "left_out": f"count_if(kind = {Kind.LEFT_OUT:d})",
        "effect_py": f"min(if(kind BETWEEN {Kind.DELIVERED:d} AND {Kind.LEFT_OUT:d}, b, NULL))",
        "is_rolled": f"count_if(kind = {Kind.FIRST:d}) > 0",
        "units": f"count_if(kind = {Kind.UNIT:d})",
        "unit_pos": f"max(if(kind = {Kind.UNIT:d}, a, NULL))",
        "waits": f"count_if(kind = {Kind.UNIT:d} AND b >= {limits.read_ms})",
        "exact_first_ms": _of_units("min", "b", FLAG_EXACT),
        "exact_last_ms": _of_units("max", "b", FLAG_EXACT),
        "late_first_ms": _of_units("min", "b", 0),
        "unit_size_min": f"min(if(kind = {Kind.UNIT:d}, c, NULL))",
        "unit_size_max": f"max(if(kind = {Kind.UNIT:d}, c, NULL))",
        "unit_deletes": f"count_if(kind = {Kind.UNIT:d} AND (d & {FLAG_DELETE}) > 0)",
        "disordered": f"count_if(kind = {Kind.UNIT:d} AND (d & {FLAG_DISORDERED}) > 0)",
    }
    aggregates = [F.expr(text).alias(name) for name, text in columns.items()]
    return facts.repartition(partitions, "key").groupBy("key").agg(*aggregates)


def _of_units(function: str, column: str, flags: int) -> str:
    """An aggregate over units that are exact, or are not, and do not roll."""
    wanted = f"kind = {Kind.UNIT:d} AND (d & {FLAG_EXACT | FLAG_ROLL}) = {flags}"
    return f"{function}(if({wanted}, {column}, NULL))"
