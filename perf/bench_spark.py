"""What do tables and jobs of Spark cost, beside their floors?

A store is filled with timers that wait for an hour to forty, once, and kept for the next question
if a directory is named. Each question is asked twice in one session with two cores: the first
asking warms Java up, the second counts. CPU is that of all processes, Java's too; memory is the
largest resident set of one Python worker.

Run: ``python perf/bench_spark.py QUESTION … [--count N] [--store DIR] [--keep]``.
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

import attrs
import psutil
import trio
from kept import report
from pyspark.sql import DataFrame, SparkSession

from timermq.cli.bench.measure import calibrate
from timermq.cli.bench.standing import fill
from timermq.pipeline.spark import read_table, register, spark_session

COUNT = 1_000_000
WORKER_MEMORY_MAX = 1 << 30
SAMPLE_SECONDS = 0.2
FILLED = "filled"
"""A file beside a store that is full: how many timers it holds."""


def swallow(frame: DataFrame) -> None:
    """Make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def timerlog(spark: SparkSession, store: str) -> None:
    """Every column of every unit."""
    swallow(read_table(spark, "timermq.timerlog", store))


def commitlog(spark: SparkSession, store: str) -> None:
    """Of every record what the pending timers need: key, tags, and what the timer asks for."""
    columns = "phy_offset,store_ms,unique_id,keys,tags,deliver_ms,real_topic,real_queue_id,rolls"
    swallow(read_table(spark, "timermq.commitlog", store, columns=columns))


def pending(spark: SparkSession, store: str) -> None:
    """Every column of what will fire: units, and their records gathered."""
    swallow(read_table(spark, "timermq.pending", store))


def pending_units(spark: SparkSession, store: str) -> None:
    """Moments of what will fire: from units alone."""
    swallow(read_table(spark, "timermq.pending", store, columns="deliver_ms,topic_hash"))


@attrs.frozen
class Question:
    """A job, and what it must do at least."""

    ask: Callable[[SparkSession, str], None]
    rows_per_second: float | None = None
    seconds_of_ten_million: float | None = None


QUESTIONS: Mapping[str, Question] = {
    "timerlog": Question(timerlog, rows_per_second=5e6),
    "commitlog": Question(commitlog, rows_per_second=0.7e6),
    "pending": Question(pending),
    "pending_units": Question(pending_units),
}


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
    """Measure a block."""
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


def filled(directory: Path, count: int) -> str:
    """A store with so many timers that wait; one that is there already is filled up."""
    mark = directory / FILLED
    there = int(mark.read_text()) if mark.exists() else 0
    if there < count:
        trio.run(fill, directory / "store", range(there, count))
        mark.write_text(str(count))
    return str(directory / "store")


def measure(names: list[str], directory: Path, count: int) -> list[dict[str, object]]:
    """The answers to some questions."""
    store = filled(directory, count)
    spark = spark_session(master="local[2]", name="bench", settings={"spark.driver.memory": "2g"})
    register(spark)
    found: list[dict[str, object]] = []
    for name in names:
        question = QUESTIONS[name]
        question.ask(spark, store)
        before_ms = calibrate()
        with metered() as meter:
            question.ask(spark, store)
        found.append(
            {
                "question": name,
                "rows": count,
                "seconds": round(meter.seconds, 2),
                "rows_per_second": round(count / meter.seconds),
                "rows_per_second_min": question.rows_per_second,
                "seconds_of_ten_million_max": question.seconds_of_ten_million,
                "cpu_seconds": round(meter.cpu_seconds, 2),
                "worker_mib": round(meter.worker_bytes / (1 << 20)),
                "worker_mib_max": WORKER_MEMORY_MAX >> 20,
                "calibration_ms": [round(before_ms, 2), round(calibrate(), 2)],
            }
        )
        print(found[-1], file=sys.stderr, flush=True)
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="+", choices=sorted(QUESTIONS))
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--store", type=Path, help="where the store is, or will be made and left")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as made:
        answers = measure(args.questions, args.store or Path(made), args.count)
    report("spark", {"questions": answers}, keep=args.keep)
