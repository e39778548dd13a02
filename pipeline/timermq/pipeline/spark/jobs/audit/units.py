"""The timer log in itself: a unit at each place, linked to the one before it in its slot."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from timermq.repair.store_rule import StoreRule
from timermq.timerlog import NO_POS, UNIT
from timermq.timerlog.segment import units_in

from ...store_view import LogView
from .finding import Judgement, broken, text

LINK_COLUMNS = ("pos", "prev_pos", "slot_ms")
"""Of ``timermq.timerlog``."""


def unit_count(log: LogView) -> int:
    """How many units a timer log has up to its end, if none is torn."""
    room = units_in(log.segment_size) * UNIT.size
    return sum(
        (min(high, start + room) - low) // UNIT.size
        for start, low, high in log.segments(log.start, log.end)
    )


def torn(units: DataFrame, log: LogView) -> DataFrame:
    """Findings: places between units that are none.

    Args:
        units: With ``LINK_COLUMNS``.
        log: Its files.
    """
    size = log.segment_size
    in_segment = Window.partitionBy(F.expr(f"pos - pmod(pos, {size})")).orderBy("pos")
    rows = units.withColumns(
        {
            "before": F.coalesce(
                F.lag("pos").over(in_segment),
                F.expr(f"greatest(pos - pmod(pos, {size}), {log.start}) - {UNIT.size}"),
            ),
            "behind": F.lead("pos").over(in_segment),
            "end": F.expr(
                f"least(pos - pmod(pos, {size}) + {units_in(size) * UNIT.size}, {log.end})"
            ),
        }
    )
    unit = f"'a unit of {UNIT.size} bytes at each place'"
    return broken(
        rows,
        [
            Judgement(
                rule=StoreRule.CHAIN_BROKEN,
                when=f"pos > before + {UNIT.size}",
                phy_offset="NULL",
                pos=f"before + {UNIT.size}",
                expected=unit,
                found=text("none up to %s", "pos"),
            ),
            Judgement(
                rule=StoreRule.CHAIN_BROKEN,
                when=f"behind IS NULL AND pos + {UNIT.size} < end",
                phy_offset="NULL",
                pos=f"pos + {UNIT.size}",
                expected=unit,
                found=text("none up to %s", "end"),
            ),
        ],
    )


def has_broken_chain(units: DataFrame, start: int, read_ms: int) -> bool:
    """Whether any slot that is still to be read may have one.

    In a chain each unit but the newest is named by another one, so the sums of both are the same.

    Args:
        units: With ``LINK_COLUMNS``.
        start: Of the timer log; units before it are gone.
        read_ms: Slots before it are read, and their chains are no question any more.
    """
    slots = units.where(f"slot_ms >= {read_ms}").groupBy("slot_ms")
    sums = slots.agg(
        F.expr(f"bit_xor(if(prev_pos >= {start}, prev_pos, 0)) AS named"),
        F.expr("bit_xor(pos) ^ max(pos) AS others"),
    )
    return not sums.where("named != others").isEmpty()


def broken_chains(units: DataFrame, start: int, read_ms: int) -> DataFrame:
    """Findings: units that name none of their slot before them.

    Args:
        units: With ``LINK_COLUMNS``.
        start: As above.
        read_ms: As above.
    """
    live = units.where(f"slot_ms >= {read_ms}")
    targets = live.selectExpr("pos AS prev_pos", "slot_ms", "true AS is_there")
    linked = live.join(targets, ["prev_pos", "slot_ms"], "left")
    return broken(
        linked,
        [
            Judgement(
                rule=StoreRule.CHAIN_BROKEN,
                when=f"(is_there IS NULL OR prev_pos >= pos) AND prev_pos != {NO_POS} "
                f"AND (prev_pos < 0 OR prev_pos >= {start})",
                phy_offset="NULL",
                pos="pos",
                expected=text("a link to a unit of slot %s before this one", "slot_ms"),
                found=text("one to %s", "prev_pos"),
            )
        ],
    )
