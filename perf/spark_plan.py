"""What does it cost to plan a read of what waits, and what does a ten-second window read?

A store is filled with timers whose moments grow with the order of sending, as those of one delay
do, and each hundredth is cancelled. Its plan is made as of a store that is served: with the
outlines that the broker has kept, and without them, when the units tell. Bytes are those that Linux
counts for the process; the tasks of a window run in it one after the other. Times are the least of
some repeats; at the end Spark counts the window's messages.

Run: ``python perf/spark_plan.py [--count N] [--store DIR] [--keep]``; 1 GB of disk a million. Exit
code 1: the plan, or the window, reads more than a hundredth of the timer log.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio
from bench_spark import CORES, JAVA_MEMORY
from result_files import report

from timermq.pipeline.clock.clock import SystemClock
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.spark import read_table, register, spark_session
from timermq.pipeline.spark.level_spans import LevelSpan
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.store_view import StoreView
from timermq.pipeline.spark.tables.pending_table import PendingReader, PendingSpan
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerlog.outlines import DIRECTORY
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from timermq.timerstore.store_options import StoreOptions

COUNT = 2_000_000
BATCH = 256
TOPIC = "BenchPlan"
CANCELLED_EACH = 100
SPREAD_MS = (12 * 3_600_000, 36 * 3_600_000)
"""The first message is due in twelve hours, the last one in thirty-six."""
WINDOW_MS = 10_000
REPEATS = 5
SHARE_MAX = 0.01
"""Of the timer log: what a plan may read, and a window."""
COLUMNS = ("deliver_ms", "topic_hash")


async def fill(root: Path, numbers: range, moment_ms: Callable[[int], int], body: bytes) -> None:
    """Put a message for each number into a store, new or stopped, and cancel some; it is stopped.

    Args:
        root: Of the store.
        numbers: Of the messages.
        moment_ms: When each is due, epoch milliseconds.
        body: Of each.
    """
    clock = SystemClock()
    store = MessageStore.open(
        OsDisk(),
        str(root),
        StoreOptions(),
        now_ms=clock.now_ms,
        store_host=pack_host("127.0.0.1", 10_911),
    )
    service = TimerMessageStore(store, TimerOptions(), clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        async with trio.open_nursery() as stages:
            await stages.start(service.run)
            for at in range(0, len(numbers), BATCH):
                some = numbers[at : at + BATCH]
                service.put(
                    [
                        Message(
                            TOPIC,
                            number % 4,
                            body,
                            b"TIMER_DELIVER_MS\x01%d\x02UNIQ_KEY\x01%032X\x02"
                            % (moment_ms(number), number),
                        )
                        for number in some
                    ]
                )
                await trio.lowlevel.checkpoint()
                for number in some:
                    if number % CANCELLED_EACH == 0:
                        service.cancellation.cancel(Wanted(TOPIC, f"{number:032X}"))
            queue = store.queue(TIMER_TOPIC, 0)
            assert queue is not None
            while service.state.commit_queue_offset < queue.max_offset:  # noqa: ASYNC110 - a load
                await trio.sleep(0.05)
            await trio.sleep(2 * TimerOptions().timer_flush_interval_ms / 1000)
            service.request_stop()
        await store.aclose()
        nursery.cancel_scope.cancel()


def spread(count: int) -> Callable[[int], int]:
    """The moments of so many messages, which grow with their numbers."""
    first_ms, last_ms = (SystemClock().now_ms() + one for one in SPREAD_MS)
    return lambda number: first_ms + (last_ms - first_ms) * number // count


def bytes_read() -> int:
    """Bytes that this process has read so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar:")).split()[1])


def least_seconds(ask: Callable[[], object]) -> float:
    """The shortest of some repeats."""
    found: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        ask()
        found.append(time.perf_counter() - started)
    return round(min(found), 4)


def planned(view: StoreView, window: Mapping[str, Any]) -> dict[str, object]:
    """The cost of a plan, and of its tasks."""
    reader = PendingReader(ReadOptions(path=view.root, **window), COLUMNS)
    reader.spans(view)  # imports what it needs
    before = bytes_read()
    spans = reader.spans(view)
    plan_bytes = bytes_read() - before
    sizes = [len(pickle.dumps(span)) for span in spans]

    def run(spans: list[PendingSpan | LevelSpan]) -> int:
        return sum(batch.num_rows for span in spans for batch in reader.batches(span))

    before = bytes_read()
    rows = run(spans)
    task_bytes = bytes_read() - before
    return {
        "rows": rows,
        "tasks": len(spans),
        "plan_seconds": least_seconds(lambda: reader.spans(view)),
        "plan_bytes": plan_bytes,
        "task_bytes": task_bytes,
        "task_seconds": least_seconds(lambda: run(reader.spans(view))),
        "pickled_bytes": sum(sizes),
        "pickled_bytes_max": max(sizes, default=0),
    }


def asked(root: Path) -> tuple[int, list[dict[str, object]]]:
    """Bytes of the timer log, and the plans of all and of a window, with outlines and without."""
    view = StoreView.of(str(root))
    moments = {"due_from": window_from(view), "due_to": window_from(view) + WINDOW_MS}
    found: list[dict[str, object]] = []
    kept, aside = root / DIRECTORY, root.parent / f"{DIRECTORY}.aside"
    for by in ("outlines", "units"):
        if by == "units":
            kept.rename(aside)
        try:
            for name, window in (("all", {}), ("ten seconds", moments)):
                found.append({"by": by, "read": name, **planned(view, window)})
                print(found[-1], file=sys.stderr, flush=True)
        finally:
            if by == "units":
                aside.rename(kept)
    return view.timer_log.end - view.timer_log.start, found


def window_from(view: StoreView) -> int:
    """A moment in the midst of what waits."""
    return view.read_ms + sum(SPREAD_MS) // 2


def counted_by_spark(root: Path) -> float:
    """Seconds until Spark has counted a window's messages, when Java is warm."""
    spark = spark_session(
        master=f"local[{CORES}]", name="plan", settings={"spark.driver.memory": JAVA_MEMORY}
    )
    register(spark)
    first_ms = window_from(StoreView.of(str(root)))

    def count() -> int:
        return read_table(
            spark,
            "timermq.pending",
            str(root),
            columns=",".join(COLUMNS),
            due_from=first_ms,
            due_to=first_ms + WINDOW_MS,
        ).count()

    least_seconds(count)
    found = least_seconds(count)
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--store", type=Path, help="where the store is, or will be made and left")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as made:
        root = (args.store or Path(made)) / "store"
        if not root.exists():
            trio.run(fill, root, range(args.count), spread(args.count), b"x" * 128)
        # As of a store that is served: a stopped one is recovered first, which takes longer.
        lock = StoreLock(OsDisk(), str(root))
        lock.take()
        log_bytes, answers = asked(root)
        seconds = counted_by_spark(root)
        lock.release()
    by_outlines = [one for one in answers if one["by"] == "outlines"]
    read = [int(str(one["plan_bytes"])) for one in by_outlines]
    read.append(int(str(by_outlines[-1]["task_bytes"])))
    passes = max(read) <= SHARE_MAX * log_bytes
    result = {
        "count": args.count,
        "cancelled": -(-args.count // CANCELLED_EACH),
        "timer_log_bytes": log_bytes,
        "plans": answers,
        "spark_window_seconds": seconds,
        "share_max": SHARE_MAX,
        "passes": passes,
    }
    report("spark_plan", result, keep=args.keep)
    sys.exit(not passes)
