"""Drivers that are killed with their Java at the worst moment, and the runs that come after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from pyspark.sql import DataFrame, SparkSession
from trio.testing import MockClock

from damaged_stores import LATER_MS, small_image
from golden_stores import GoldenStores
from interop.serving import Broker
from rebuild_by_hand import pending_rows, unpack
from spark.conftest import SETTINGS
from spark.drivers.archive_driver import MOMENTS
from spark.drivers.digests import with_tests
from spark.drivers.schedule_driver import COUNT, hand_over, interrupted
from spark.drivers.stream_driver import JOB, KILLED_BATCH, stream
from spark.pending import waiting_keys
from spark.test_rebuild import SMALL, served
from timermq.cli import main
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.jobs.archive import read_archive
from timermq.pipeline.spark.sink import SinkOptions, job_report
from timermq.timerstore.os_disk import OsDisk
from waiting import wait_until

pytestmark = pytest.mark.slow

SECONDS_MAX = 240
"""A driver takes so long at most until its moment comes."""


def job(*argv: str) -> list[str]:
    """A job as arguments of Python, with the settings of the tests, which start sooner."""
    settings = [f"--setting={key}={value}" for key, value in SETTINGS.items()]
    return ["timermq.cli", "spark", *argv, *settings]


def killed(argv: list[str], is_time: Callable[[], bool]) -> None:
    """Run a module in processes of its own, and kill them all as soon as it is time."""
    driver = subprocess.Popen(
        [sys.executable, "-m", *argv],
        env={**os.environ, "PYTHONPATH": with_tests()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        wait_until(is_time, SECONDS_MAX, is_over=lambda: driver.poll() is not None, pause=0.001)
    except AssertionError as error:
        driver.kill()
        error.add_note(driver.communicate()[1][-2000:])
        raise
    os.killpg(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    driver.communicate()


@pytest.mark.parametrize("moment", MOMENTS)
def test_archive(
    spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path, moment: str
) -> None:
    """Killed before a batch has its entry, or behind it: the manifest has all of it, or nothing.

    Then every message is there once, and nothing else.
    """
    root, directory, mark = golden_stores["g3"].root, tmp_path / "archive", tmp_path / "mark"
    argv = ["archive", "--store", root, "--to", str(directory)]
    expected = phy_offsets(read_table(spark, "timermq.delivered", root))

    killed(["spark.drivers.archive_driver", root, str(directory), str(mark), moment], mark.exists)
    amid = phy_offsets(read_archive(spark, str(directory)))
    written = phy_offsets(spark.read.parquet(str(directory)))
    again = main(["spark", *argv])

    assert 0 == again
    assert expected == written
    assert amid == (expected if moment == "behind" else [])
    assert expected == phy_offsets(read_archive(spark, str(directory)))
    assert expected == phy_offsets(spark.read.parquet(str(directory)))


def phy_offsets(frame: DataFrame) -> list[int]:
    """The positions of messages, in order."""
    return sorted(int(row["phy_offset"]) for row in frame.select("phy_offset").collect())


def test_promote(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Killed when a file has its mark and perhaps its hand-over: every message waits once."""
    far, count = tmp_path / "far", 3_000
    day = datetime.fromtimestamp(time.time() + 3600, UTC).date()
    spark.range(0, count, 1, 1).selectExpr(
        "'Killed' topic",
        "cast(string(id) as binary) body",
        "unix_millis(now()) + 3600000 + id deliver_at",
        "string(id) key",
    ).write.parquet(str(far / f"due_day={day}"))
    argv = ["promote", "--from", str(far), "--broker", broker.listen]

    killed(job(*argv), lambda: any(far.glob("_promoted/*.json")))
    again = [main(["spark", *argv]) for _ in range(2)]

    assert again == [0, 0]
    assert Counter(map(str, range(count))) == waiting_keys(broker, "Killed")


def test_hand_over(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Killed in the hand-over, its request on the way: each row waits once after the next run."""
    job_name, mark = "driver-in-hand-over", tmp_path / "mark"
    options = SinkOptions(broker=broker.listen, job=job_name)

    killed(["spark.drivers.schedule_driver", broker.listen, job_name, str(mark)], mark.exists)
    amid = set(waiting_keys(broker, job_name).values())
    spark.dataSource.register(interrupted(str(mark), is_killed=False))
    hand_over(spark, options, job_name)

    assert amid <= {1}
    assert Counter(map(str, range(COUNT))) == waiting_keys(broker, job_name)
    assert ("done", COUNT) == (job_report(options).state, job_report(options).adopted)


def test_hand_over_of_a_worker(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Its process alone is killed there: the job fails, and the next run takes each row once."""
    job_name, mark = "worker-in-hand-over", tmp_path / "mark"
    options = SinkOptions(broker=broker.listen, job=job_name)
    spark.dataSource.register(interrupted(str(mark), is_killed=True))

    with pytest.raises(Exception, match=r"[Pp]ython worker") as raised:
        hand_over(spark, options, job_name)
    assert mark.exists(), raised.value
    hand_over(spark, options, job_name)

    assert Counter(map(str, range(COUNT))) == waiting_keys(broker, job_name)
    assert ("done", COUNT) == (job_report(options).state, job_report(options).adopted)


def test_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    """Killed while the new files take their places: what waits is the same, then and afterwards."""
    image = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    store = tmp_path / "store"
    root = unpack(image, store)
    expected = pending_rows(OsDisk(), root)
    argv = ["rebuild", "--store", root, "--install"]

    killed(job(*argv), lambda: any(store.glob("aside/*")))
    amid = pending_rows(OsDisk(), root)
    again = main(["spark", *argv])

    assert expected == amid
    assert 0 == again
    assert expected == pending_rows(OsDisk(), root)
    assert {f"m{number}": 1 for number in range(60)} == served(root, SMALL, LATER_MS, 120)


def test_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Killed when a batch is handed over, which no checkpoint says yet: each row waits once."""
    options = SinkOptions(broker=broker.listen, job=JOB)
    source, checkpoint, mark = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "mark"
    for batch in range(3):
        spark.range(20 * batch, 20 * (batch + 1), 1, 1).selectExpr(
            "'Streamed' topic", "string(id) body", "3600000L delay_ms", "string(id) key"
        ).write.mode("append").parquet(str(source))

    killed(["spark.drivers.stream_driver", broker.listen, str(tmp_path)], mark.exists)
    noted = {path.name for path in (checkpoint / "commits").glob("[0-9]*")}
    state = job_report(options.of_batch(KILLED_BATCH)).state
    stream(spark, options, str(source), str(checkpoint))

    assert ({"0"}, "done") == (noted, state)
    assert [20] * 3 == [job_report(options.of_batch(batch)).adopted for batch in range(3)]
    assert Counter(map(str, range(60))) == waiting_keys(broker, "Streamed")
