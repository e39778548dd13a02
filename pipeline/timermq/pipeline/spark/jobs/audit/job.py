"""The job: reads a store, and puts together what the rules find."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import attrs
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from timermq.repair.store_rule import StoreRule

from ....records.system_topics import TIMER_TOPIC
from ...errors import SparkJobError
from ...named_stores import named_stores
from ...options import Stores
from ...store_view import StoreView, life_of
from ...tables.declaration import BROKER
from . import by_key, queues, rules
from .damaged_records import IS_REPAIRED, IS_UNSOUND, REPAIRED_COLUMNS, TORN, outside_of
from .facts import (
    FACT_COLUMNS,
    LOG_COLUMNS,
    UNIT_COLUMNS,
    Limits,
    by_position,
    partition_count,
    record_facts,
    unit_facts,
)
from .finding import COLUMNS, Judgement, broken, text
from .store_ends import flushed_pos, left_out, settled_of
from .tables import GivenTables, StoreTables, Tables
from .units import LINK_COLUMNS, broken_chains, has_broken_chain, torn, unit_count

FINDING_COLUMNS = (
    "rule",
    "promise",
    "topic",
    "queue_id",
    "queue_offset",
    "unique_id",
    "phy_offset",
    "pos",
    "expected",
    "found",
)
"""Of the table of findings."""


@attrs.frozen(kw_only=True)
class Audit:
    """The result of an audit: the rules that a store breaks, and counts of its messages."""

    findings: DataFrame
    """A row a broken rule; kept on the disk of the executors until the session ends."""
    broken: Mapping[StoreRule, int]
    """How often each rule was broken; 0 of one that was not looked at."""
    unasked: Collection[StoreRule]
    """Rules that were not looked at: they have to be asked for."""
    counts: Mapping[str, int]
    """The counts of the messages by outcome."""
    by_broker: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict[str, Mapping[str, int]])
    """The same of each store, by its broker; empty where the frames were given."""
    notes: Sequence[str]
    """The facts that cannot be known."""

    @property
    def is_clean(self) -> bool:
        """Whether no rule was broken."""
        return not any(self.broken.values())


def audit(
    spark: SparkSession,
    store: Stores,
    *,
    late_ms: int | None = None,
    in_order: bool = False,
    bodies: bool = True,
    timer_precision_ms: int | None = None,
) -> Audit:
    """Compare every timer of a store with its unit and its delivery; of several one by one.

    Args:
        spark: A session that the tables are registered in.
        store: The directory, as driver and executors see it, or several, as of ``read_table``; they
            may be served.
        late_ms: A delivery is late beyond so many milliseconds; None: lateness is not judged.
        in_order: Also look at the order of messages of one moment and queue.
        bodies: Compare bodies with their checksums.
        timer_precision_ms: Of the wheel, where RocketMQ was set to another one than a second.

    Raises:
        SparkJobError: RocketMQ serves the store; or it was cleaned, or a broker started on it,
            meanwhile: run it again.
        NoStoreError: There is none.
        StoreError: It cannot be opened; ``timermq store check`` says more.
    """
    found = dict[str, Audit]()
    for one in named_stores(store):
        life, view = life_of(one.root), one.view(timer_precision_ms)
        tables = StoreTables(spark=spark, view=view, timer_precision_ms=timer_precision_ms)
        found[one.broker] = _Audit(tables, view, late_ms, in_order, bodies).run()
        _check_unchanged(view, life)
    return _together(found)


def _together(found: Mapping[str, Audit]) -> Audit:
    """One audit of several: findings and counts with their brokers, and their sums."""
    each = list(found.values())
    findings = [
        one.findings.withColumn(BROKER.name, F.lit(broker)) for broker, one in found.items()
    ]
    return Audit(
        findings=reduce(DataFrame.union, findings),
        broken={rule: sum(one.broken[rule] for one in each) for rule in each[0].broken},
        unasked=each[0].unasked,
        counts={name: sum(one.counts[name] for one in each) for name in COUNTED},
        by_broker={broker: one.counts for broker, one in found.items()},
        notes=[
            note if len(found) == 1 else f"{broker}: {note}"
            for broker, one in found.items()
            for note in one.notes
        ],
    )


def _check_unchanged(view: StoreView, life: tuple[bool, int]) -> None:
    """Whether a store is still what it was when the job began.

    Raises:
        SparkJobError: A broker has started on it, or removed what was old.
    """
    store = view.root
    if not view.is_live and life_of(store) != life:
        raise SparkJobError(
            f"{store}: expected a stopped store, found that a broker was started on it "
            "since the job began; run it again"
        )
    now = StoreView.of(store, timer_precision_ms=view.timer_options.timer_precision_ms)
    if (now.log.start, now.timer_log.start) != (view.log.start, view.timer_log.start):
        raise SparkJobError(
            f"{store}: expected logs that begin at {view.log.start} and {view.timer_log.start}, "
            f"found {now.log.start} and {now.timer_log.start}: the broker has removed what was old "
            "since the job began; run it again"
        )


def audit_on(
    commit_log: DataFrame,
    timer_log: DataFrame,
    queues: DataFrame,
    *,
    view: StoreView,
    late_ms: int | None = None,
    in_order: bool = False,
    bodies: bool = True,
) -> Audit:
    """Audit tables, wherever they are from; each is read several times.

    Args:
        commit_log: ``timermq.commitlog``, read with ``damage=report``.
        timer_log: ``timermq.timerlog``.
        queues: ``timermq.consumequeue``.
        view: The store as it stood when they were read, its directory still there.
        late_ms: As of ``audit``.
        in_order: The same.
        bodies: The same.
    """
    tables = GivenTables(commit_log=commit_log, timer_log=timer_log, queues=queues)
    return _Audit(tables, view, late_ms, in_order, bodies).run()


class _Audit:
    """One audit of the tables of a store."""

    def __init__(
        self,
        tables: Tables,
        view: StoreView,
        late_ms: int | None,
        in_order: bool,
        bodies: bool,
    ) -> None:
        self.tables, self.view, self.in_order, self.bodies = tables, view, in_order, bodies
        self.limits = Limits(
            log_start=view.log.start,
            log_end=view.log.end,
            read_ms=view.read_ms,
            queue_offset=view.queue_offset,
            precision_ms=view.timer_options.timer_precision_ms,
            late_ms=late_ms,
        )
        self.settled = settled_of(view)
        self.unasked = {StoreRule.LATE} if late_ms is None else set[StoreRule]()
        if not in_order:
            self.unasked.add(StoreRule.DISORDER)
        self.notes = left_out(view, bodies=bodies)

    def run(self) -> Audit:
        """Make all passes, and gather what they find."""
        kept, counts = self._first_pass()
        # ``kept`` has a row a position, ``parts`` what was found so far. ``counts`` tells which of
        # the costly passes are needed; some correct it by what they come to know.
        parts = [broken(kept, rules.rules(self.limits))]
        copies = rules.copies(kept, self.limits).persist(StorageLevel.DISK_ONLY)
        # What is wrong with one record is not told a second time of its message.
        known = parts[0].where(f"rule = '{StoreRule.TWICE.name}'").select("phy_offset")
        of_copies = broken(copies, rules.OF_COPIES).join(known, "phy_offset", "left_anti")
        parts.append(of_copies.select(*parts[0].columns))
        taken_back = copies.where("is_taken_back")
        if self.limits.log_start and counts["deletes"]:
            by_order = copies.join(self._deleted_orders(), "order_py", "left_semi")
            taken_back = taken_back.union(by_order).dropDuplicates(["order_py"])
        (dead,) = taken_back.selectExpr("sum(open) AS open", "sum(pending) AS pending").collect()
        for name in ("open", "pending"):
            counts[name] -= dead[name] or 0
        counts["copies"] += (dead["open"] or 0) + (dead["pending"] or 0)
        if self.in_order:
            parts.append(broken(rules.in_order(kept), [rules.ORDER]))
        if counts["open"] or counts["named_deletes"] or counts["foreign_units"]:
            parts.append(self._by_names(counts, taken_back.select("order_py")))
        parts += self._timer_log(counts)
        parts += self._queues(counts)
        # A torn record explains other findings, and a repair some of those: both need them all.
        found = reduce(DataFrame.unionByName, parts)
        if counts["damaged"] or counts["unsound"]:
            found = self._torn(found)
        found, by_rule = counted(found)
        if by_rule and (repaired := self._repaired()) is not None:
            found, by_rule = counted(outside_of(found, repaired))
        findings = self._with_names(found) if by_rule else self._none()
        kept.unpersist()
        return Audit(
            findings=findings,
            broken={rule: by_rule.get(rule.name, 0) for rule in StoreRule if rule.is_audited},
            unasked=self.unasked,
            counts={name: counts[name] for name in COUNTED},
            notes=self.notes,
        )

    # -- the first pass ---------------------------------------------------------------------------

    def _positions(self, log: DataFrame, timer_log: DataFrame) -> DataFrame:
        # One fact about nothing: of a frame without rows Spark drops what was counted on the way.
        nothing = self.tables.spark.range(1).selectExpr(
            *(f"NULL AS {name}" for name in FACT_COLUMNS)
        )
        facts = record_facts(log).unionByName(unit_facts(timer_log)).unionByName(nothing)
        view = self.view
        parts = partition_count(view.log.end - view.log.start, unit_count(view.timer_log))
        return by_position(facts, self.limits, parts)

    def _first_pass(self) -> tuple[DataFrame, dict[str, int]]:
        """The positions for the rules, and all counts, in one reading of both logs."""
        seen = [Observation(name) for name in ("log", "units", "positions")]
        columns = [name for name in LOG_COLUMNS if self.bodies or not name.startswith("body")]
        unsound = IS_UNSOUND if self.bodies else "false"
        told = queues.record_sums(self.settled) | {
            "records": "count_if(damage IS NULL)",
            "damaged": "count_if(damage IS NOT NULL)",
            "unsound": f"count_if({unsound})",
        }
        log = self.tables.log(columns).observe(seen[0], *aggregates(told))
        units_end = f"count_if(pos < {self.view.timer_log.end})"
        timer_log = self.tables.units(UNIT_COLUMNS).observe(
            seen[1], *aggregates({"units": units_end})
        )
        positions = self._positions(log, timer_log).observe(
            seen[2], *aggregates(rules.counts(self.limits))
        )
        wanted = [rule.when for rule in rules.rules(self.limits)]
        wanted.append(rules.IS_COPY)
        if self.in_order:
            wanted.append("delivered = 1")
        kept = positions.where(" OR ".join(f"({one})" for one in wanted))
        kept = kept.persist(StorageLevel.DISK_ONLY)
        kept.count()
        counts: dict[str, int] = {}
        for one in seen:
            counts |= {name: int(value or 0) for name, value in one.get.items()}
        return kept, counts

    # -- the passes that are made when there is a reason ------------------------------------------

    def _deleted_orders(self) -> DataFrame:
        """Messages, by the positions that are cleaned, that deletes of ours cancel."""
        deletes = self.tables.log(by_key.TIMER_COLUMNS, topic=TIMER_TOPIC)
        return deletes.where(f"is_delete AND delete_order < {self.limits.log_start}").selectExpr(
            "delete_order AS order_py"
        )

    def _by_names(self, counts: dict[str, int], taken_back: DataFrame) -> DataFrame:
        """The facts that only names tell; counts the records that they explain."""
        positions = self._positions(
            self.tables.log([name for name in LOG_COLUMNS if not name.startswith("body")]),
            self.tables.units(UNIT_COLUMNS),
        )
        timers = self.tables.log(by_key.TIMER_COLUMNS, topic=TIMER_TOPIC).where(
            "real_topic IS NOT NULL"
        )
        foreign = by_key.foreign_ends(self.tables.log(by_key.FOREIGN_COLUMNS))
        foreign = foreign.persist(StorageLevel.DISK_ONLY)
        rows = by_key.named_timers(positions, timers, foreign, taken_back, self.limits)
        rows = rows.persist(StorageLevel.DISK_ONLY)
        (told,) = rows.agg(*aggregates(by_key.counts(self.limits))).collect()
        counts |= told.asDict()
        found = broken(rows, by_key.rules(self.limits))
        counts["cancelled"] += counts["by_delete"] + counts["will_be_cancelled"]
        counts["pending"] -= counts["will_be_cancelled"]
        counts["delivered"] += counts["foreign_delivered"]
        counts["rolled"] += counts["foreign"] - counts["foreign_delivered"]
        unmatched = by_key.unmatched(foreign, timers).count()
        if counts["foreign"]:
            self.notes.append(
                f"{counts['foreign']} messages were delivered or rolled by RocketMQ, which names "
                "no position: they are known by topic, unique key, slot and rolls"
            )
        if counts["unknown"]:
            self.notes.append(
                f"{counts['unknown']} rolled messages have neither arrived nor wait, and their "
                "first records are cleaned, maybe with the deletes that cancelled them: not judged"
            )
        if unmatched:
            self.notes.append(
                f"{unmatched} deliveries or rolls by RocketMQ fit no waiting record: "
                "those are cleaned"
            )
        return found

    def _timer_log(self, counts: Mapping[str, int]) -> list[DataFrame]:
        log, read_ms = self.view.timer_log, self.limits.read_ms
        found: list[DataFrame] = []
        if not self.view.is_live and log.end < (flushed := flushed_pos(self.view)):
            row = self.tables.spark.range(1).selectExpr(f"{log.end} AS pos", f"{flushed} AS end")
            found.append(broken(row, [SHORT]))
            self.notes.append(
                "the timer log is damaged: the next start reads the timer topic from its "
                "beginning, and enqueues what has no unit, so nothing counts as lost"
            )
        if counts["units"] != unit_count(log):
            links = self.tables.units(LINK_COLUMNS).where(f"pos < {log.end}")
            found.append(torn(links, log))
        links = self.tables.units(LINK_COLUMNS)
        if has_broken_chain(links, log.start, read_ms):
            found.append(broken_chains(links, log.start, read_ms))
        return found

    def _queues(self, counts: Mapping[str, int]) -> list[DataFrame]:
        shown = self.tables.queue_units(queues.UNIT_COLUMNS)
        count, total, is_dense = queues.unit_sums(shown, self.settled)
        if is_dense and (count, total) == (counts["queued"], counts["queued_sum"]):
            return []
        return [queues.compared(self.tables.log(queues.LOG_COLUMNS), shown, self.settled)]

    def _torn(self, found: DataFrame) -> DataFrame:
        """Findings with those of damaged records, without those of what is missing there."""
        damaged = self.tables.log(["phy_offset", "total_size", "body_crc", "body", "damage"]).where(
            f"damage IS NOT NULL OR {IS_UNSOUND}"
        )
        return outside_of(found, damaged.where("damage IS NOT NULL")).unionByName(
            broken(damaged, [TORN])
        )

    def _repaired(self) -> DataFrame | None:
        """Records that a repair has filled holes with; None without any."""
        repaired = self.tables.log(REPAIRED_COLUMNS).where(IS_REPAIRED)
        places = repaired.count()
        if not places:
            return None
        self.notes.append(
            f"{places} records stand where a repair found damaged ones: "
            "what was there, and what names it, is not judged"
        )
        return repaired

    def _with_names(self, found: DataFrame) -> DataFrame:
        """Findings with topic, queue and unique key of their records."""
        columns = ("phy_offset", "topic", "queue_id", "queue_offset", "real_topic", "unique_id")
        records = self.tables.log(columns).join(
            found.select("phy_offset"), "phy_offset", "left_semi"
        )
        own = records.selectExpr(
            "phy_offset",
            "coalesce(real_topic, topic) AS own_topic",
            "queue_id AS own_queue_id",
            "queue_offset AS own_queue_offset",
            "unique_id",
        )
        named = found.join(own, "phy_offset", "left").selectExpr(
            "rule",
            "promise",
            "coalesce(topic, own_topic) AS topic",
            "coalesce(queue_id, own_queue_id) AS queue_id",
            "coalesce(queue_offset, own_queue_offset) AS queue_offset",
            *FINDING_COLUMNS[5:],
        )
        return named.persist(StorageLevel.DISK_ONLY)

    def _none(self) -> DataFrame:
        """A frame of findings without rows."""
        # Its overloads name types of pandas, which is not installed.
        make = self.tables.spark.createDataFrame  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return make([], f"{COLUMNS}, unique_id string").select(*FINDING_COLUMNS)


SHORT = Judgement(
    rule=StoreRule.CHAIN_BROKEN,
    when="true",
    phy_offset="NULL",
    pos="pos",
    expected=text("units up to %s, as the checkpoint says", "end"),
    found="'none behind this place'",
)
"""Of a timer log that the next start would cut."""
COUNTED = (
    "records",
    "timers",
    "delivered",
    "moved",
    "rolled",
    "cancelled",
    "copies",
    "set_aside",
    "pending",
    "deletes",
    "units",
    "cleaned",
)
"""The lines about a store, in this order."""


def counted(found: DataFrame) -> tuple[DataFrame, dict[str, int]]:
    """Findings, kept for further looks, and how many there are by their rules."""
    found = found.persist(StorageLevel.DISK_ONLY)
    return found, {row[0]: row[1] for row in found.groupBy("rule").count().collect()}


def aggregates(told: Mapping[str, str]) -> list[Column]:
    """Expressions by name as columns."""
    return [F.expr(text).alias(name) for name, text in told.items()]
