"""How long does `timermq spark rebuild` take?

A store is filled with timers; every tenth is marked as delivered. Wall time of the job without the
start of the session, CPU of all its processes, and the largest memory of one Python worker, beside
the calibration loop.

Run: ``python perf/spark_rebuild.py [--count N] [--cores N]``; 1 GB of disk a million.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import psutil
import trio
from kept import report

from timermq.cli.bench.measure import calibrate
from timermq.cli.bench.standing import fill
from timermq.pipeline.already_done import origin_of
from timermq.pipeline.clock import SystemClock
from timermq.pipeline.spark import spark_session
from timermq.pipeline.spark.jobs.rebuild import rebuild
from timermq.pipeline.system_topics import TIMER_TOPIC
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

COUNT = 1_000_000
FLOOR_SECONDS = 60.0
"""For ten million on two cores."""
DELIVERED_EACH = 10
BATCH = 1000
LOOK_SECONDS = 0.5


async def deliver(root: Path, count: int) -> None:
    """Store records that name every tenth timer as their origin."""
    store = MessageStore.open(
        OsDisk(),
        str(root),
        StoreOptions(),
        now_ms=SystemClock().now_ms,
        store_host=pack_host("127.0.0.1", 10911),
    )
    queue = store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    for first in range(0, count, BATCH * DELIVERED_EACH):
        places = queue.units(first, BATCH * DELIVERED_EACH)["phy_offset"][::DELIVERED_EACH]
        store.put(
            [
                Message("Bench", 0, b"x" * 100, b"", prepared_offset=origin_of(place))
                for place in places.tolist()
            ]
        )
    await store.aclose()


class Meter:
    """CPU and memory of the processes below this one, looked at now and then."""

    def __init__(self) -> None:
        self.worker_bytes = 0
        self.cpu_seconds = 0.0
        self._used: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Meter:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and sum up."""
        self._ended.set()
        self._thread.join()
        self.cpu_seconds = sum(self._used.values())

    def _watch(self) -> None:
        begun = {one.pid: sum(one.cpu_times()[:2]) for one in self._processes()}
        while not self._ended.wait(LOOK_SECONDS):
            for one in self._processes():
                try:
                    used = sum(one.cpu_times()[:2]) - begun.get(one.pid, 0.0)
                    self._used[one.pid] = max(used, self._used.get(one.pid, 0.0))
                    if "pyspark.worker" in " ".join(one.cmdline()):
                        self.worker_bytes = max(self.worker_bytes, one.memory_info().rss)
                except psutil.Error:
                    continue

    def _processes(self) -> list[psutil.Process]:
        me = psutil.Process()
        return [me, *me.children(recursive=True)]


def measure(count: int, cores: int) -> dict[str, object]:
    """Fill, rebuild, and say what it took."""
    with tempfile.TemporaryDirectory(prefix="timermq-rebuild-") as directory:
        root = Path(directory, "store")
        trio.run(fill, root, range(count))
        trio.run(deliver, root, count)
        spark = spark_session(master=f"local[{cores}]", settings={"spark.driver.memory": "2g"})
        calibration = calibrate()
        with Meter() as meter:
            began = time.perf_counter()
            made = rebuild(spark, str(root), out=f"{directory}/new")
            seconds = time.perf_counter() - began
        calibration = (calibration + calibrate()) / 2
        spark.stop()
    assert made.timers.units == count - -(-count // DELIVERED_EACH)
    return {
        "count": count,
        "cores": cores,
        "seconds": round(seconds, 2),
        "rows_per_second": round(count / seconds),
        "cpu_seconds": round(meter.cpu_seconds, 1),
        "worker_mib": round(meter.worker_bytes / (1 << 20)),
        "calibration_ms": round(calibration, 2),
        "floor_seconds_for_10_million": FLOOR_SECONDS,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    report("spark_rebuild", measure(args.count, args.cores), keep=args.keep)
