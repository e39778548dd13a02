"""Does a unit of the timer log cost Spark more where there are a hundred times as many?

A small store's timer log is written on with the units that it has, shuffled again each time round,
and read as a table when it has a million, ten million and a hundred million. CPU is that of all
processes, Java's too; the least of some repeats counts. One count is judged beside another as seen,
and the floor as on the reference machine.

Run: ``python perf/spark_linearity.py [--counts N …] [--keep]``; 5 GB of disk and some minutes.
Exit code 1: somewhere a unit costs more than a quarter beyond what it does among ten times fewer,
or, from ten million on, more than the floor of reading the timer log.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
from bench_spark import CORES, JAVA_MEMORY, QUESTIONS, metered, timerlog, warm_up
from pyspark.sql import SparkSession
from result_files import report
from spark_store import SparkStore

from timermq.bench.calibration import calibration
from timermq.pipeline.spark import register, spark_session
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import UNIT, TimerCheckpoint, TimerLog, Units
from timermq.timerstore.os_disk import OsDisk

COUNTS = (1_000_000, 10_000_000, 100_000_000)
FILLED = 100_000
"""Timers of the store whose units are written again."""
REPEATS = 5
RATIO_MAX = 1.25
"""A unit's cost beside that among the next fewer units."""
FLOOR_FROM = 10_000_000
"""Among fewer the start of a job weighs more than its units."""


def opened(store: SparkStore) -> TimerLog:
    """The timer log of a stopped store, found to its end."""
    size = TimerOptions().mapped_file_size_timer_log
    log = TimerLog.open(OsDisk(), f"{store.root}/timerlog", size)
    log.recover(0)
    return log


def extend(store: SparkStore, units: Units, count: int) -> None:
    """Write on with some units, so many more, and say in the checkpoint that they are there."""
    log, draw = opened(store), np.random.default_rng(7)
    for done in range(0, count, len(units)):
        log.append(draw.permutation(units)[: count - done])
    checkpoint = TimerCheckpoint.open(OsDisk(), f"{store.root}/config/timercheck")
    checkpoint.last_timer_log_flush_pos = log.max_pos
    checkpoint.write()
    checkpoint.close()
    log.close()


def answer(spark: SparkSession, store: SparkStore) -> dict[str, object]:
    """What reading costs a unit: the repeat that took the least CPU."""
    found: list[tuple[float, float, float]] = []
    for _ in range(REPEATS):
        with calibration() as calibrated, metered() as meter:
            timerlog(spark, store)
        found.append((meter.cpu_seconds * calibrated.share, meter.cpu_seconds, meter.seconds))
    normal, cpu, seconds = min(found)
    return {
        "units": store.count,
        "seconds": round(seconds, 2),
        "units_per_second": round(store.count / seconds),
        "cpu_us": round(cpu * 1e6 / store.count, 3),
        "normal_cpu_us": round(normal * 1e6 / store.count, 3),
    }


def measure(directory: Path, counts: list[int]) -> list[dict[str, object]]:
    """The answers, the fewest units first."""
    store = SparkStore.filled(directory, FILLED)
    log = opened(store)
    # Joining turns the file's byte order into the machine's.
    units = np.concatenate([units for _, units in log.scan(0)]).astype(UNIT.dtype)
    log.close()
    spark = spark_session(
        master=f"local[{CORES}]", name="linearity", settings={"spark.driver.memory": JAVA_MEMORY}
    )
    register(spark)
    found: list[dict[str, object]] = []
    for count in counts:
        extend(store, units, count - store.count)
        store = attrs.evolve(store, count=count)
        if not found:
            warm_up(timerlog, spark, store)
        found.append(answer(spark, store))
        print(found[-1], file=sys.stderr, flush=True)
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--store", type=Path, help="where the store is made, and left")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as made:
        answers = measure(args.store or Path(made), sorted(args.counts))
    # Beside each other as they are: the machine's speed is measured worse than what is compared.
    raw = [float(str(one["cpu_us"])) for one in answers]
    costs = [float(str(one["normal_cpu_us"])) for one in answers]
    seconds_max = QUESTIONS["timerlog"].seconds_max
    assert seconds_max is not None
    cost_max = seconds_max * CORES * 1e6 / FLOOR_FROM
    passes = all(more <= RATIO_MAX * fewer for fewer, more in pairwise(raw)) and all(
        cost <= cost_max
        for cost, one in zip(costs, answers, strict=True)
        if int(str(one["units"])) >= FLOOR_FROM
    )
    result = {
        "answers": answers,
        "ratio_max": RATIO_MAX,
        "normal_cpu_us_max": round(cost_max, 3),
        "passes": passes,
    }
    report("spark_linearity", result, keep=args.keep)
    sys.exit(not passes)
