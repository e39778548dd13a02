"""Executors of their own, which share nothing with the driver but the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from golden_stores import GoldenStores
from spark.digests import digests
from timermq.pipeline.spark.registration import SOURCES

SECONDS_MAX = 240
"""The other processes take so long at most."""


@pytest.mark.slow
def test_same_as_in_one_process(
    spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """``local-cluster[2,1,2048]`` reads, audits and reports a killed store as ``local[2]`` does."""
    store = golden_stores["g3"].root
    # Executors work below Spark's home: links keep them out of the installed package.
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)

    with subprocess.Popen(
        [sys.executable, "-m", "spark.digests", "local-cluster[2,1,2048]", store],
        env={**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as cluster:
        expected = digests(spark, store)  # while executors start
        out, err = cluster.communicate(timeout=SECONDS_MAX)

    assert cluster.returncode == 0, err[-4000:]
    found = json.loads(out.splitlines()[-1])  # the log comes before
    assert expected == found
    assert min(found[source.name()][0] for source in SOURCES) > 0
