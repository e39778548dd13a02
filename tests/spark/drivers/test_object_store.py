"""A job over a backup in an object store, its executors included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pyarrow.dataset as dataset
import pytest
import trio
from pyspark.sql import SparkSession

from golden_stores import GoldenStores
from object_store import BUCKET, access, object_store
from spark.drivers.archived_driver import shown_rows
from spark.drivers.digests import with_tests
from spark.drivers.test_killed_drivers import job, phy_offsets
from timermq.backup.shipper import Shipper
from timermq.backup.target_place import target_of
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.jobs.archive import archive, archived_files, read_archive
from timermq.pipeline.spark.options import store_path
from timermq.pipeline.spark.places import system_of
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

TABLE = (
    "table",
    "delivered",
    "--limit",
    "100000",
    "--option",
    "columns=phy_offset,broker",
    "--json",
)
SECONDS_MAX = 480
"""A job takes so long at most."""


async def ship(root: str, url: str) -> None:
    """Back a stopped store up, as ``timermq backup`` does."""
    shipper = Shipper(
        disk=OsDisk(),
        root=root,
        target=target_of(url, OsDisk()),
        now_ms=lambda: 0,
        is_served=lambda: False,
        keep_ms=0,
        queue_file_size=StoreOptions().mapped_file_size_consume_queue,
        piece_size=1 << 18,
    )
    while not (await shipper.round()).is_settled:
        pass


def output_of(*argv: str) -> str:
    """What a module of Python prints."""
    ran = subprocess.run(
        [sys.executable, "-m", *argv],
        env={**os.environ, "PYTHONPATH": with_tests()},
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert 0 == ran.returncode, ran.stderr[-4000:]
    return ran.stdout


@pytest.mark.slow
def test_archive_of_a_backup(
    spark: SparkSession,
    golden_stores: GoldenStores,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It has what the store has delivered; backups and archive are all in the object store.

    A table of two of them has the rows of both, each with its name. Spark and other readers of
    Parquet find in the archive what they find in one that stands in a directory.
    """
    root, url, lake = golden_stores["g3"].root, f"s3://{BUCKET}/g3", f"s3://{BUCKET}/lake"
    argv = ["archive", "--store", url, "--to", lake, "--json"]
    with object_store(tmp_path / "log") as port:
        for name, value in access(port).items():
            monkeypatch.setenv(name, value)
        for place in (url, f"{url}-more"):
            trio.run(ship, root, place)
        archived = json.loads(output_of(*job(*argv)))
        both = output_of(*job(*TABLE, "--store", f"one={url}", "--store", f"two={url}-more"))
        system, _ = system_of(store_path(lake))
        # The stubs of pyarrow leave open what files are given as.
        found = dataset.dataset(archived_files(lake), filesystem=system).to_table()  # pyright: ignore
        read = json.loads(output_of("spark.drivers.archived_driver", lake))

    archive(spark, root, str(tmp_path / "lake"))
    assert read["rows"] == shown_rows(read_archive(spark, str(tmp_path / "lake")))
    assert read["days"] == Counter(row["date"] for row in read["rows"])
    expected = phy_offsets(read_table(spark, "timermq.delivered", root))
    assert len(expected) == archived["rows"] > 0
    for name in ("one", "two"):
        told = [row for row in map(json.loads, both.splitlines()) if row["broker"] == name]
        assert expected == sorted(row["phy_offset"] for row in told)
    assert expected == sorted(cast("list[int]", found.column("phy_offset").to_pylist()))
