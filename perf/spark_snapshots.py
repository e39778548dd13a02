"""What do plans and jobs cost over the snapshots of several brokers in an object store?

A store is filled with timers whose moments grow with the order of sending, as those of one delay
do, and each hundredth is cancelled. Each so many it is stopped and copied. Such a copy stands in an
object store under several names, as the snapshots of so many brokers: hard links, so all have one
content. The object store is ``rclone serve s3``, in a process of its own.

Planned is a read of all that waits, and one of ten seconds, whose tasks run in this process one
after the other; bytes and requests are those of objects that were read. Then report and audit run
on Spark with two cores; their CPU is that of all processes, Java's and the object store's too. One
count is judged beside another as seen.

Run: ``python perf/spark_snapshots.py --store DIR [--brokers N] [--counts N …] [--jobs N …]``, with
``rclone`` in the path; 0.4 GB of disk a million messages of each count. What was kept of counts and
jobs that are not asked stays. Exit code 1: the largest plan takes more than five seconds, its ten
seconds read more than a fiftieth of the timer logs, or a message costs a job more than half beyond
what it does among fewer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio
from bench_spark import CORES, JAVA_MEMORY, metered
from pyspark.sql import SparkSession
from result_files import kept
from result_files import report as keep_report
from spark_plan import CANCELLED_EACH, SPREAD_MS, WINDOW_MS, fill, least_seconds, spread

from timermq.bench.server import free_port
from timermq.pipeline.spark import register, spark_session
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.jobs.report import report
from timermq.pipeline.spark.named_stores import named_stores
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.places import ObjectFile
from timermq.pipeline.spark.tables.pending_table import PendingReader

COUNTS = (1_000_000, 3_000_000, 12_000_000, 25_300_000)
"""Messages of a broker; of the last 100 million wait at four of them."""
BROKERS = 4
BODY = b"x" * 16
BUCKET = "snapshots"
KEY, SECRET = "figures", "figures-secret"
START_SECONDS = 60
PLAN_SECONDS_MAX = 5.0
SHARE_MAX = 0.02
"""Of the timer logs: what plan and tasks of a window may read."""
RATIO_MAX = 1.5
"""A message's cost beside that among the next fewer messages."""
COLUMNS = ("deliver_ms", "topic_hash", "broker")


def fill_all(directory: Path, counts: Sequence[int]) -> None:
    """Make the stores that are missing, each of its first messages a copy of the one before."""
    if all((directory / str(count)).exists() for count in counts):
        return
    growing, moments, done = directory / "growing", spread(counts[-1]), 0
    for count in counts:
        trio.run(fill, growing, range(done, count), moments, BODY)
        done = count
        if count == counts[-1]:
            growing.rename(directory / str(count))
        else:
            _run("cp", "-r", "--sparse=always", str(growing), str(directory / str(count)))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def served(directory: Path, store: Path, brokers: int) -> Generator[list[str]]:
    """The stores of some brokers in an object store, as tables take them, in a block."""
    port = free_port()
    objects, names = (
        directory / f"objects-{port}",
        [f"broker-{number}" for number in range(brokers)],
    )
    (objects / BUCKET).mkdir(parents=True)
    for name in names:
        _run("cp", "-al", str(store), str(objects / BUCKET / name))
        shutil.rmtree(objects / BUCKET / name / "index", ignore_errors=True)  # no table reads it
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }
    address = ("--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}")
    # Without its buffer: that reads 16 MiB ahead, whatever range is asked for.
    plain = ("--read-only", "--etag-hash", "", "--vfs-read-wait", "0", "--buffer-size", "0")
    server = subprocess.Popen(
        ["rclone", "serve", "s3", str(objects), *address, *plain],  # noqa: S607 - of the path
        stderr=subprocess.DEVNULL,
    )
    places = [f"{name}=s3://{BUCKET}/{name}" for name in names]
    try:
        _await(places[0])
        yield places
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(objects)


def _await(place: str) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            named_stores(place)[0].view()
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return


class Reads:
    """The reads of objects by this process."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count those of a block."""
        read_at, self.requests, self.bytes = ObjectFile.read_at, 0, 0

        def counting(file: ObjectFile, size: int, offset: int) -> bytes:
            data = read_at(file, size, offset)
            self.requests += 1
            self.bytes += len(data)
            return data

        ObjectFile.read_at = counting  # type: ignore[assignment,method-assign]  # up to the end of the block
        try:
            yield
        finally:
            ObjectFile.read_at = read_at  # type: ignore[method-assign]  # as it was


def planned(places: Sequence[str], window: Mapping[str, Any]) -> dict[str, object]:
    """The cost of a plan over the stores; of a window that of its tasks too."""
    reader, reads = PendingReader(ReadOptions(path=places, **window), COLUMNS), Reads()
    with reads.counted():
        partitions = reader.partitions()
    found: dict[str, object] = {
        "tasks": len(partitions),
        "plan_bytes": reads.bytes,
        "plan_requests": reads.requests,
        "plan_seconds": least_seconds(reader.partitions),
    }
    if window:

        def run() -> int:
            return sum(batch.num_rows for one in partitions for batch in reader.read(one))

        with reads.counted():
            found["rows"] = run()
        found |= {"task_bytes": reads.bytes, "task_requests": reads.requests}
        found["task_seconds"] = least_seconds(run)
    return found


def plans(places: Sequence[str], count: int) -> dict[str, object]:
    """The plans of all that waits and of a window in its midst."""
    views = [store.view() for store in named_stores(list(places))]
    first_ms = views[0].read_ms + SPREAD_MS[0]
    first_ms += (SPREAD_MS[1] - SPREAD_MS[0]) * count // max(COUNTS) // 2
    window = {"due_from": first_ms, "due_to": first_ms + WINDOW_MS}
    return {
        "brokers": len(places),
        "messages": count * len(places),
        "timer_log_bytes": sum(one.timer_log.end - one.timer_log.start for one in views),
        "log_bytes": sum(one.log.end - one.log.start for one in views),
        "all": planned(places, {}),
        "ten_seconds": planned(places, window),
    }


def reported(spark: SparkSession, places: Sequence[str], count: int) -> None:
    """All that ``timermq spark report`` shows."""
    found = report(spark, list(places), begin_ms=time.time_ns() // 1_000_000)
    waiting = (count - -(-count // CANCELLED_EACH)) * len(places)
    assert sum(row["count"] for row in found.topics.collect()) == waiting
    for frame in (
        *(found.minutes, found.hours, found.hot_slots, found.rolls, found.delays),
        *(found.lateness, found.late_buckets),
    ):
        frame.collect()
    found.release()


def audited(spark: SparkSession, places: Sequence[str], _: int) -> None:
    """Timers and units side by side, bodies against their checksums."""
    assert audit(spark, list(places)).is_clean


Job = Callable[[SparkSession, Sequence[str], int], None]
JOBS: Mapping[str, Job] = {"report": reported, "audit": audited}


def cost(ask: Callable[[], None], messages: int) -> dict[str, object]:
    """What a job costs a message."""
    with metered() as meter:
        ask()
    return {
        "seconds": round(meter.seconds, 1),
        "cpu_us": round(meter.cpu_seconds * 1e6 / messages, 3),
        "worker_mib": meter.worker_bytes >> 20,
    }


def asked(places: Sequence[str], count: int) -> dict[str, Any]:
    """What the jobs on some stores cost."""
    spark = spark_session(
        master=f"local[{CORES}]", name="snapshots", settings={"spark.driver.memory": JAVA_MEMORY}
    )
    register(spark)
    found: dict[str, Any] = {}
    for name, ask in JOBS.items():
        ask(spark, places, count)  # Java is cold the first time
        found[name] = cost(partial(ask, spark, places, count), count * len(places))
        print(name, found[name], file=sys.stderr, flush=True)
    spark.stop()
    return found


def answers(
    directory: Path, counts: Sequence[int], job_counts: Sequence[int], brokers: int
) -> list[dict[str, Any]]:
    """The answers, the fewest messages first."""
    found: list[dict[str, Any]] = []
    for count in counts:
        with served(directory, directory / str(count), brokers) as places:
            one: dict[str, Any] = plans(places, count)
            print(one, file=sys.stderr, flush=True)
            if count in job_counts:
                one |= asked(places, count)
        found.append(one)
    return found


def with_kept(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answers, and those kept of what was not asked, the fewest messages first."""
    try:
        known = {one["messages"]: one for one in kept("spark_snapshots")["answers"]}
    except FileNotFoundError:
        known = {}
    for one in found:
        known[one["messages"]] = {**known.get(one["messages"], {}), **one}
    return [known[messages] for messages in sorted(known)]


def passed(found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all of the floors hold."""
    largest = found[-1]
    read = largest["ten_seconds"]["plan_bytes"] + largest["ten_seconds"]["task_bytes"]
    costs = [[one[name]["cpu_us"] for one in found if name in one] for name in JOBS]
    return (
        largest["all"]["plan_seconds"] <= PLAN_SECONDS_MAX
        and read <= SHARE_MAX * largest["timer_log_bytes"]
        and all(more <= RATIO_MAX * fewer for some in costs for fewer, more in pairwise(some))
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--store", type=Path, required=True, help="where the stores are made, and left"
    )
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--jobs", type=int, nargs="*", default=COUNTS, help="counts for jobs")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    fill_all(args.store, sorted(args.counts))
    results = with_kept(answers(args.store, sorted(args.counts), args.jobs, args.brokers))
    passes = passed(results)
    result = {
        "answers": results,
        "plan_seconds_max": PLAN_SECONDS_MAX,
        "share_max": SHARE_MAX,
        "ratio_max": RATIO_MAX,
        "passes": passes,
    }
    keep_report("spark_snapshots", result, keep=args.keep)
    sys.exit(not passes)
