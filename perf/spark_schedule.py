"""How fast does Spark schedule into a broker that runs, and what do other timers feel of it?

A million rows (100 bytes, a key each, due in one to three hours) go from Parquet through the sink
to a broker on the same machine, until the last one is stored for good. Meanwhile another producer's
timers fire, a hundred a second, and the broker counts how late. A small job before warms Java up.
Wall time, and CPU of the broker a row, beside the calibration loop; judged is the rate as on the
reference machine, with Spark and the broker on its two cores.

Run: ``python perf/spark_schedule.py [--count N] [--cores N] [--keep]``. Exit code 1: slower
than the floor, a row was refused, or the other timers were late.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import trio
from bench_bulk import LATE_ENOUGH_MS, Sent, cpu, timers
from bench_spark import JAVA_MEMORY, metered
from pyspark.sql import SparkSession
from result_files import report
from served import Server, serving
from storm import lateness

from timermq.bench.calibration import calibration
from timermq.pipeline.spark import register, spark_session
from timermq.pipeline.spark.jobs.schedule import schedule
from timermq.pipeline.spark.sink import JobReport, SinkOptions

COUNT = 1_000_000
WARM_COUNT = 20_000
ROWS_PER_SECOND_MIN = 100_000
BODY_SIZE = 100
FLAGS = (
    "--metrics-listen=127.0.0.1:0",
    "--set=mapped_file_size_commit_log=268435456",
    "--set=max_hash_slot_num=5000000",
    "--set=max_index_num=20000000",
)


def written(spark: SparkSession, directory: str, count: int) -> str:
    """So many rows as Parquet, in eight files."""
    path = f"{directory}/{count}"
    spark.range(0, count, 1, 8).selectExpr(
        "'Bulk' topic",
        f"cast(rpad(string(id), {BODY_SIZE}, 'x') as binary) body",
        "3600000 + id % 7200000 delay_ms",
        "concat('order-', id) key",
    ).write.parquet(path)
    return path


def measure(spark: SparkSession, server: Server, count: int) -> dict[str, object]:
    """One job, behind a small one."""
    metrics, sent = server.ready("metrics_listen"), Sent()
    sender = threading.Thread(target=trio.run, args=(timers, server, sent))
    with tempfile.TemporaryDirectory() as directory:
        small, large = written(spark, directory, WARM_COUNT), written(spark, directory, count)
        _scheduled(spark, server, small)
        sender.start()
        time.sleep(1.5)
        before = lateness(metrics)
        with calibration() as calibrated, metered() as meter:
            cpu_before = cpu(server)
            found = _scheduled(spark, server, large)
            used = cpu(server) - cpu_before
        time.sleep(1.5)
        after = lateness(metrics)
        sent.stop = True
        sender.join()
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(counts.values())
    late = next(bound for bound, fired in counts.items() if fired >= 0.99 * total)
    rate = found.adopted / meter.seconds
    return {
        "rows": found.adopted,
        "refused": found.refused,
        "seconds": round(meter.seconds, 2),
        "rows_per_second": round(rate),
        "normal_rows_per_second": round(rate / calibrated.share),
        "rows_per_second_min": ROWS_PER_SECOND_MIN,
        "broker_cpu_us": round(used / count * 1e6, 2),
        "broker_normal_cpu_us": round(used / count * 1e6 * calibrated.share, 2),
        "spark_cpu_seconds": round(meter.cpu_seconds - used, 2),
        "worker_mib": round(meter.worker_bytes / (1 << 20)),
        "timers_fired": total,
        "lateness_p99_ms": late * 1000,
        "lateness_p99_ms_max": LATE_ENOUGH_MS,
        "calibration_ms": round(calibrated.ms, 2),
        "passes": (found.adopted, found.refused) == (count, {})
        and rate / calibrated.share >= ROWS_PER_SECOND_MIN
        and late * 1000 <= LATE_ENOUGH_MS,
    }


def _scheduled(spark: SparkSession, server: Server, path: str) -> JobReport:
    options = SinkOptions(broker=server.ready("listen"), job=Path(path).name)
    return schedule(spark.read.parquet(path), options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with serving(*FLAGS) as running:
        session = spark_session(
            master=f"local[{args.cores}]",
            name="bench",
            settings={"spark.driver.memory": JAVA_MEMORY},
        )
        register(session)
        answer = measure(session, running, args.count)
        session.stop()
    print(answer, file=sys.stderr)
    report("spark_schedule", answer, keep=args.keep)
    sys.exit(not answer["passes"])
