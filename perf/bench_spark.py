"""What do tables and jobs of Spark cost, beside their floors?

A store is filled with timers that wait for an hour to forty, once, and kept for the next question
if a directory is named; for `rebuild` every tenth is marked as delivered, for `audit` all of them.
Each question has a session with two cores and 2 GB for Java, and is asked until Java is warm; the
next repeat counts. CPU is that of all processes, Java's too, and judged as on the reference
machine; memory is the largest resident set of one Python worker. Kept answers of questions that are
not asked stay. What Spark wrote to its disk because the memory did not hold it is told too;
`audit_spilling` has so few partitions that it must.

Run: ``python perf/bench_spark.py [QUESTION …] [--count N] [--store DIR] [--keep]``; 1 GB of disk a
million. Exit code 1: a floor was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil
from pyspark.sql import DataFrame, SparkSession
from result_files import kept
from result_files import report as keep_report
from spark_store import SparkStore

from timermq.bench.calibration import calibration
from timermq.bench.idle_cost import SPREAD_MS
from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.jobs.audit import audit as audit_store
from timermq.pipeline.spark.jobs.audit import facts
from timermq.pipeline.spark.jobs.rebuild import rebuild as rebuild_store
from timermq.pipeline.spark.jobs.report import report as report_store
from timermq.timerlog import UNIT

COUNT = 1_000_000
CORES = 2
WORKER_MEMORY_MAX = 1 << 30
JAVA_MEMORY = "2g"
SAMPLE_SECONDS = 0.2
WARM_SECONDS = 40
"""For so long a question is asked before it counts."""


def swallow(frame: DataFrame) -> None:
    """Make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def timerlog(spark: SparkSession, store: SparkStore) -> None:
    """All that stands in every unit, as far as Spark."""
    columns = ",".join(["pos", *(field.name for field in UNIT.fields if field.name != "size")])
    frame = read_table(spark, "timermq.timerlog", str(store.root), columns=columns)
    assert frame.count() == store.count


def timerlog_all(spark: SparkSession, store: SparkStore) -> None:
    """The columns that are made of it too."""
    assert read_table(spark, "timermq.timerlog", str(store.root)).count() == store.count


def commitlog(spark: SparkSession, store: SparkStore) -> None:
    """Of every record what the pending timers need: key, tags, and what the timer asks for."""
    columns = "phy_offset,store_ms,unique_id,keys,tags,deliver_ms,real_topic,real_queue_id,rolls"
    swallow(read_table(spark, "timermq.commitlog", str(store.root), columns=columns))


def pending(spark: SparkSession, store: SparkStore) -> None:
    """Every column of what will fire: units, and their records gathered."""
    swallow(read_table(spark, "timermq.pending", str(store.root)))


def pending_units(spark: SparkSession, store: SparkStore) -> None:
    """Moments of what will fire: from units alone."""
    columns = "deliver_ms,topic_hash"
    swallow(read_table(spark, "timermq.pending", str(store.root), columns=columns))


def report(spark: SparkSession, store: SparkStore) -> None:
    """All that ``timermq spark report`` shows."""
    found = report_store(spark, str(store.root), begin_ms=time.time_ns() // 1_000_000)
    assert sum(row["count"] for row in found.topics.collect()) == store.count
    for frame in (
        *(found.minutes, found.hours, found.hot_slots, found.rolls, found.delays),
        *(found.lateness, found.late_buckets),
    ):
        frame.collect()
    found.release()


def rebuild(spark: SparkSession, store: SparkStore) -> None:
    """The rebuild of timer log and wheel."""
    with tempfile.TemporaryDirectory(dir=store.directory) as made:
        built = rebuild_store(spark, str(store.root), out=made)
    assert built.timers.units == store.count - store.delivered


def audit(spark: SparkSession, store: SparkStore) -> None:
    """Timers, units and deliveries side by side, bodies against their checksums."""
    found = audit_store(spark, str(store.root), late_ms=2 * SPREAD_MS[1])
    assert found.is_clean
    assert found.counts["delivered"] == store.count


def audit_spilling(spark: SparkSession, store: SparkStore) -> None:
    """The same, a partition of it a core."""
    usual = facts.FACTS_PER_PARTITION
    facts.FACTS_PER_PARTITION = 3 * store.count // CORES
    try:
        audit(spark, store)
    finally:
        facts.FACTS_PER_PARTITION = usual


@attrs.frozen
class Question:
    """A job, and how long it may take."""

    ask: Callable[[SparkSession, SparkStore], None]
    seconds_max: float | None = None
    """For ten million on two cores of the reference machine."""
    delivered: Callable[[SparkStore], int] | None = None
    """How many timers are delivered when it is asked; None: it does not matter."""


def none(_: SparkStore) -> int:
    """No timer is delivered: all of them wait."""
    return 0


QUESTIONS: Mapping[str, Question] = {
    "timerlog": Question(timerlog, 10 / 5),
    "timerlog_all": Question(timerlog_all),
    "commitlog": Question(commitlog, 10 / 0.7, none),
    "pending": Question(pending, None, none),
    "pending_units": Question(pending_units, None, none),
    "report": Question(report, 15, none),
    "rebuild": Question(rebuild, 60, lambda store: store.some),
    "audit": Question(audit, 60, lambda store: store.count),
    "audit_spilling": Question(audit_spilling, None, lambda store: store.count),
}
"""In the order in which one store can answer them."""


@attrs.define
class Meter:
    """What this process and those that it started used in a block."""

    seconds: float = 0
    cpu_seconds: float = 0
    worker_bytes: int = 0
    is_over: bool = False

    def sample(self) -> None:
        """Look at the workers until the block is over."""
        while not self.is_over:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.name().startswith("python"):
                        self.worker_bytes = max(self.worker_bytes, process.memory_info().rss)
            time.sleep(SAMPLE_SECONDS)


@contextlib.contextmanager
def metered() -> Generator[Meter]:
    """Measure time, CPU and the workers' memory over a block."""
    meter = Meter()
    sampler = threading.Thread(target=meter.sample)
    sampler.start()
    cpu, started = _cpu_seconds(), time.perf_counter()
    try:
        yield meter
    finally:
        meter.seconds = time.perf_counter() - started
        meter.cpu_seconds = _cpu_seconds() - cpu
        meter.is_over = True
        sampler.join()


def _cpu_seconds() -> float:
    """Of this process, of those it started, and of those that they have seen end."""
    own = psutil.Process()
    found = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            found += sum(process.cpu_times()[:4])
    return found


def measure(names: list[str], directory: Path, count: int) -> list[dict[str, object]]:
    """The answers to some questions."""
    store = SparkStore.filled(directory, count)
    found: list[dict[str, object]] = []
    for name in (name for name in QUESTIONS if name in names):
        delivered = QUESTIONS[name].delivered
        if delivered is not None:
            store.bring_to(delivered(store))
        spark = spark_session(
            master=f"local[{CORES}]", name="bench", settings={"spark.driver.memory": JAVA_MEMORY}
        )
        register(spark)
        found.append(answer(name, spark, store))
        print(found[-1], file=sys.stderr, flush=True)
        spark.stop()  # what is stored next is stored without it
    return found


def warm_up(
    ask: Callable[[SparkSession, SparkStore], None], spark: SparkSession, store: SparkStore
) -> None:
    """Ask until Java has compiled, once at least."""
    warm = time.monotonic() + WARM_SECONDS
    ask(spark, store)
    while time.monotonic() < warm:
        ask(spark, store)


def spilled(spark: SparkSession) -> int:
    """Bytes that this session has written to its disk because they did not fit the memory."""
    # PySpark does not tell these counts; the store behind Spark's web pages does, without types.
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    context: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    nothing = gateway.jvm.java.util.ArrayList()
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = context.sc().statusStore().stageList(None, False, False, quantiles, nothing)
    return sum(stages.apply(at).diskBytesSpilled() for at in range(stages.size()))


def answer(name: str, spark: SparkSession, store: SparkStore) -> dict[str, object]:
    """What a question costs when Java is warm."""
    question = QUESTIONS[name]
    warm_up(question.ask, spark, store)
    spilled_before = spilled(spark)
    with calibration() as calibrated, metered() as meter:
        question.ask(spark, store)
    share = calibrated.share
    floor = question.seconds_max and question.seconds_max * CORES * 1e6 / 10_000_000
    cpu_us = meter.cpu_seconds * 1e6 / store.count
    within = floor is None or cpu_us * share <= floor
    return {
        "question": name,
        "rows": store.count,
        "seconds": round(meter.seconds, 2),
        "normal_seconds": round(meter.seconds * share, 2),
        "rows_per_second": round(store.count / meter.seconds),
        "cpu_us": round(cpu_us, 2),
        "normal_cpu_us": round(cpu_us * share, 2),
        "normal_cpu_us_max": floor and round(floor, 2),
        "worker_mib": round(meter.worker_bytes / (1 << 20)),
        "worker_mib_max": WORKER_MEMORY_MAX >> 20,
        "java_memory": JAVA_MEMORY,
        "spilled_mib": (spilled(spark) - spilled_before) >> 20,
        "calibration_ms": round(calibrated.ms, 2),
        "passes": within and meter.worker_bytes <= WORKER_MEMORY_MAX,
    }


def beside_kept(answers: list[dict[str, object]]) -> list[dict[str, object]]:
    """The answers, and the kept ones of the questions that were not asked."""
    try:
        found = {one["question"]: one for one in kept("spark")["questions"]}
    except FileNotFoundError:
        found = {}
    found |= {one["question"]: one for one in answers}
    return [found[name] for name in QUESTIONS if name in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, "all"], default="all")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--store", type=Path, help="where the store is, or will be made and left")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as made:
        directory = args.store or Path(made)
        names = list(QUESTIONS) if "all" in args.questions else args.questions
        answers = measure(names, directory, args.count)
    keep_report("spark", {"questions": beside_kept(answers)}, keep=args.keep)
    sys.exit(not all(one["passes"] for one in answers))
