"""``rebuild``: timer log and wheel from the commit log, less what was done.

The commit log is read twice: for what is done (records that name the one they deliver, roll or
cancel, and messages that are cancelled, whatever they were rolled to), and for the entries of
the timer topic, of which the broker's own code makes units. The second less the first is put in
order of slots and staged by the executors; the driver appends it to a new timer log, links it in a
new wheel, and writes a checkpoint that says that all of the commit log is accounted for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from timermq.repair.backup import Backup
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from timermq.timerstore.store_options import StoreOptions

from ...clock.clock import SystemClock
from ...recovery.store_sizes import measure
from ...state.timer_options import TimerOptions
from ..errors import SparkJobError
from ..named_stores import one_store
from ..options import absolute, store_patterns
from ..rebuild.cancelled import cancelled_orders
from ..rebuild.entries import SOURCE, RebuildSource
from ..rebuild.install import install
from ..rebuild.new_files import NewTimers, lay_out, read_units
from ..rebuild.offline_store import StoppedStore, open_stopped
from ..rebuild.plan import RebuildPlan
from ..rebuild.unit_sink import staged_parts

STAGE = "timers.new"
"""Under the root: where new files are made that are to be installed."""
UNITS = "units"
"""Under the directory of the new files: what the executors stage."""
TAKEN_SENT_MAX = 1 << 20
"""Orders of messages that were cancelled, 8 bytes each, which every executor gets whole: the units
are not sorted by them then."""


now_ms_of_system = SystemClock().now_ms


@attrs.frozen(kw_only=True)
class RebuildReport:
    """The result of a rebuild: its counts, the messages left out, and the places of its files."""

    timers: NewTimers
    done: int
    """Records of the commit log that are delivered, rolled or cancelled."""
    foreign: int
    """Of them; delivered or rolled by RocketMQ."""
    read_ms: int
    """The slot that is read first."""
    left_from: int | None
    """From this entry of the timer topic on the broker looks itself: it found none to be read."""
    out: str
    """The directory of the new files; of the store if they were installed."""
    backup: str | None
    """The directory of the old files, under the store's root."""


def rebuild(
    spark: SparkSession,
    store: str,
    *,
    out: str | None = None,
    install_files: bool = False,
    options: tuple[StoreOptions, TimerOptions, tuple[str, ...]] = (
        StoreOptions(),
        TimerOptions(),
        (),
    ),
    now_ms: Callable[[], int] = now_ms_of_system,
) -> RebuildReport:
    """Rebuild the timer files of a store.

    The store is locked meanwhile; no broker can start on it.

    Args:
        spark: A session.
        store: The store's directory, as driver and executors see it; one that ``read_table`` takes.
        out: Where the new files go; a directory with nothing in it, or none yet.
        install_files: They take the places of the store's own instead.
        options: The broker's settings, and the keys of those that count more than the files.
        now_ms: The present, epoch milliseconds.

    Raises:
        StoreLockedError: A broker serves the store.
        NoStoreError: There is none.
        SparkJobError: The commit log is damaged, or in an object store; nothing was changed.
        OSError: The disk refused.
    """
    stores = store_patterns(store)
    for one in stores:
        absolute(one.directory)  # nothing can be installed in an object store
    root = one_store(stores, "rebuild").root
    if install_files == (out is not None):
        raise SparkJobError("rebuild: expected either a directory for the new files, or to install")
    disk = OsDisk()
    sizes = measure(disk, root, *options)
    lock = StoreLock(disk, root)
    lock.take()
    try:
        staged = f"{root}/{STAGE}" if out is None else absolute(out)
        with open_stopped(root, *sizes, now_ms) as opened:
            _make_empty(staged, is_ours=out is None)
            try:
                report = _build(spark, opened, staged)
            except BaseException:
                shutil.rmtree(staged, ignore_errors=True)  # there was nothing in it before
                raise
            if out is not None:
                return report
            # What was read of the log must be there after a power cut too (ORDERED_DURABILITY).
            opened.sync_log()
        backup = Backup(disk, root, now_ms())
        install(disk, root, staged, backup)
        shutil.rmtree(staged)
        return attrs.evolve(report, out=root, backup=backup.directory)
    finally:
        lock.release()


def _make_empty(directory: str, *, is_ours: bool) -> None:
    """A new directory for the files.

    Raises:
        SparkJobError: There is something in it that may be somebody's.
    """
    if is_ours:
        shutil.rmtree(directory, ignore_errors=True)
    elif Path(directory).is_dir() and any(Path(directory).iterdir()):
        raise SparkJobError(f"{directory}: expected a directory with nothing in it, found files")
    Path(directory, UNITS).mkdir(parents=True)


def _build(spark: SparkSession, opened: StoppedStore, staged: str) -> RebuildReport:
    plan, units = opened.plan, f"{staged}/{UNITS}"
    spark.dataSource.register(RebuildSource)
    done = _entries(spark, plan, "done").persist()
    try:
        counts = done.agg(
            sql.count("origin_py").alias("origins"),
            sql.count("foreign_key").alias("foreign"),
            sql.count("taken_py").alias("deletes"),
        ).first()
        assert counts is not None
        origins = done.where("origin_py is not null").select("origin_py")
        if counts["foreign"]:
            keys = _entries(spark, plan, "keys")
            origins = origins.union(_done_by_foreigners(keys, done))
        waiting = pending_units(_entries(spark, plan, "units"), origins)
        if counts["deletes"]:
            taken = cancelled_orders(done)
            if counts["deletes"] <= TAKEN_SENT_MAX:
                taken = sql.broadcast(taken)
            waiting = without_taken(waiting, taken)
        parts = 2 * spark.sparkContext.defaultParallelism
        in_order = waiting.repartitionByRange(parts, "slot_ms").sortWithinPartitions(
            "slot_ms", "order_py"
        )
        in_order.write.format(SOURCE).mode("append").option("path", units).save()
    finally:
        done.unpersist()
    found = staged_parts(units)
    left_from = min((one.first_left for one in found if one.first_left is not None), default=None)
    timers = lay_out(
        OsDisk(),
        staged,
        opened.options,
        plan,
        read_units(one.path for one in found),
        before=opened.checkpoint,
        queue_offset=plan.queue_end if left_from is None else left_from,
        topics=opened.topics(),
        now_ms=plan.now_ms,
    )
    shutil.rmtree(units)
    return RebuildReport(
        timers=timers,
        done=counts["origins"] + counts["foreign"],
        foreign=counts["foreign"],
        read_ms=plan.read_ms,
        left_from=left_from,
        out=staged,
        backup=None,
    )


def pending_units(units: DataFrame, origins: DataFrame) -> DataFrame:
    """The units of entries that no record names as its origin.

    Args:
        units: With ``offset_py``.
        origins: ``origin_py``.
    """
    return units.join(origins, units["offset_py"] == origins["origin_py"], "left_anti")


def without_taken(units: DataFrame, taken: DataFrame) -> DataFrame:
    """The units of messages that no delete of ours cancels.

    Args:
        units: With ``order_py``.
        taken: ``taken_py``.
    """
    return units.join(taken, units["order_py"] == taken["taken_py"], "left_anti")


def _done_by_foreigners(keys: DataFrame, done: DataFrame) -> DataFrame:
    """Positions of what RocketMQ delivered or rolled: each such record answers for one."""
    counts = done.where("foreign_key is not null").groupBy("foreign_key").count()
    number = sql.row_number().over(Window.partitionBy("foreign_key").orderBy("origin_py"))
    return (
        keys.join(counts, "foreign_key")
        .withColumn("number", number)
        .where("number <= count")
        .select("origin_py")
    )


def _entries(spark: SparkSession, plan: RebuildPlan, what: str) -> DataFrame:
    reader = spark.read.format(SOURCE).option("what", what).option("plan", plan.text())
    return reader.load()
