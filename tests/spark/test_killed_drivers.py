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
from pyspark.sql import SparkSession

from golden_stores import GoldenStores
from interop.serving import Broker
from spark.waiting import waiting_keys
from timermq.cli import main
from timermq.pipeline.spark import read_table

pytestmark = pytest.mark.slow

SECONDS_MAX = 120
"""A driver takes so long at most until its moment comes."""


def killed(argv: list[str], is_time: Callable[[], bool]) -> None:
    """Run a job in processes of its own, and kill them all as soon as it is time."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "timermq.cli", "spark", *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    deadline = time.monotonic() + SECONDS_MAX
    while not is_time():
        if driver.poll() is not None or time.monotonic() > deadline:
            driver.kill()
            raise AssertionError(f"the moment did not come:\n{driver.communicate()[1][-2000:]}")
        time.sleep(0.001)
    os.killpg(driver.pid, signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL
    driver.communicate()


def test_archive(spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path) -> None:
    """Killed when a batch has its entry and perhaps not its files: every message is there once."""
    root, directory = golden_stores["g3"].root, tmp_path / "archive"
    argv = ["archive", "--store", root, "--to", str(directory)]

    killed(argv, lambda: any(directory.glob("_archive/batch-*.json")))
    again = main(["spark", *argv])

    expected = read_table(spark, "timermq.delivered", root).select("phy_offset").collect()
    found = spark.read.parquet(str(directory)).select("phy_offset").collect()
    assert again == 0
    assert expected
    assert sorted(row["phy_offset"] for row in found) == sorted(
        row["phy_offset"] for row in expected
    )


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

    killed(argv, lambda: any(far.glob("_promoted/*.json")))
    again = [main(["spark", *argv]) for _ in range(2)]

    assert again == [0, 0]
    assert Counter(map(str, range(count))) == waiting_keys(broker, "Killed")
