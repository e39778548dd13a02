"""How long does `timermq spark audit` take?

A store is filled with timers, and all of them are marked as delivered: as many records that wait,
units, and deliveries. Wall time of the job without the start of the session, beside the calibration
loop; the first run warms Java up, the second counts.

Run: ``python perf/spark_audit.py [--count N] [--cores N] [--keep]``; 1 GB of disk a million.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import trio
from kept import report
from pyspark.sql import SparkSession

from timermq.cli.bench.measure import calibrate
from timermq.cli.bench.standing import SPREAD_MS, fill
from timermq.pipeline.already_done import origin_of
from timermq.pipeline.clock import SystemClock
from timermq.pipeline.spark import register, spark_session
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.system_topics import TIMER_TOPIC
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

COUNT = 1_000_000
FLOOR_SECONDS = 60.0
"""For ten million on two cores."""
BATCH = 1000


async def deliver(root: Path, count: int) -> None:
    """Store records that name the timers as their origins, when the last of these is due."""
    clock = SystemClock()
    store = MessageStore.open(
        OsDisk(),
        str(root),
        StoreOptions(),
        now_ms=lambda: clock.now_ms() + SPREAD_MS[1],
        store_host=pack_host("127.0.0.1", 10911),
    )
    queue = store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    for first in range(0, count, BATCH):
        places = queue.units(first, BATCH)["phy_offset"]
        store.put(
            [
                Message("Bench", 0, b"x" * 100, b"", prepared_offset=origin_of(place))
                for place in places.tolist()
            ]
        )
    await store.aclose()


def ask(spark: SparkSession, store: str) -> None:
    """The question: nothing is wrong with the store."""
    assert audit(spark, store, late_ms=2 * SPREAD_MS[1]).is_clean


def measure(count: int, cores: int) -> dict[str, object]:
    """Fill, audit twice, and say what it took."""
    with tempfile.TemporaryDirectory(prefix="timermq-audit-") as directory:
        root = Path(directory, "store")
        trio.run(fill, root, range(count))
        trio.run(deliver, root, count)
        spark = spark_session(master=f"local[{cores}]", settings={"spark.driver.memory": "2g"})
        register(spark)
        ask(spark, str(root))
        calibration = calibrate()
        began = time.perf_counter()
        ask(spark, str(root))
        seconds = time.perf_counter() - began
        spark.stop()
    return {
        "count": count,
        "cores": cores,
        "seconds": round(seconds, 2),
        "timers_per_second": round(count / seconds),
        "calibration_ms": [round(calibration, 2), round(calibrate(), 2)],
        "floor_seconds_for_10_million": FLOOR_SECONDS,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    report("spark_audit", measure(args.count, args.cores), keep=args.keep)
