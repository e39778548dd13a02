"""Executors of their own, which share nothing with the driver but the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from golden_stores import GoldenStores
from interop.serving import Broker
from spark.drivers.digests import ROWS, TOPIC, digests, with_tests
from spark.pending import waiting_keys
from timermq.pipeline.spark.tables.registration import SOURCES

SECONDS_MAX = 480
"""The other processes take so long at most."""


@pytest.mark.slow
def test_same_as_in_one_process(
    spark: SparkSession, golden_stores: GoldenStores, broker: Broker, tmp_path: Path
) -> None:
    """``local-cluster[2,1,2048]`` makes of a killed store what ``local[2]`` does, and schedules.

    Paths are relative there: executors have working directories of their own.
    """
    stores = [golden_stores.unpack_copy("g3", tmp_path / name) for name in ("one", "two")]
    now_ms = golden_stores["g3"].manifest.times["stopSignalMs"] + 1000
    # Executors work below Spark's home: links keep them out of the installed package.
    home = tmp_path / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (tmp_path / "of the cluster").mkdir()
    argv = [
        *("spark.drivers.digests", "local-cluster[2,1,2048]"),
        *(str(Path(stores[0]).relative_to(tmp_path)), "of the cluster", broker.listen, str(now_ms)),
    ]

    with subprocess.Popen(
        [sys.executable, "-m", *argv],
        cwd=tmp_path,
        env={**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": with_tests()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as cluster:
        # While executors start.
        expected = digests(spark, stores[1], tmp_path / "of one", broker.listen, now_ms)
        out, err = cluster.communicate(timeout=SECONDS_MAX)

    assert cluster.returncode == 0, err[-4000:]
    found = json.loads(out.splitlines()[-1])  # the log comes before
    assert expected == found
    assert min(found[source.name()][0] for source in SOURCES) > 0
    assert found["archive"][0] > 0
    assert "rebuilt new/timerwheel" in found
    assert {str(number): 2 for number in range(ROWS)} == Counter(waiting_keys(broker, TOPIC))
