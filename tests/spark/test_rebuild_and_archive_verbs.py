"""``timermq spark rebuild`` and ``archive``: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.program import Ran
from golden_stores import GoldenStores
from timermq.cli import main
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Run the program, with the session of the tests."""
    capsys.readouterr()
    code = main(["spark", *argv])
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


@pytest.mark.usefixtures("spark")
def test_rebuild(
    golden_stores: GoldenStores, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It says what waits now and where the old files stand; a store that is served is refused."""
    root = golden_stores.unpack_copy("g3", tmp_path)

    ran = run(capsys, "rebuild", "--store", root, "--install", "--json")

    (row,) = [json.loads(line) for line in ran.out.splitlines()]
    assert (0, root) == (ran.code, row["out"])
    assert row["units"] > 0
    assert (Path(root) / row["backup"] / "timerlog").is_dir()
    lock = StoreLock(OsDisk(), root)
    lock.take()
    refused = run(capsys, "rebuild", "--store", root, "--install")
    lock.release()
    assert refused.code == 1
    assert len(refused.err.splitlines()) == 1


def test_archive(
    spark: SparkSession,
    golden_stores: GoldenStores,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """It says how many messages came to the archive, and up to where; then there are no more."""
    root, directory = golden_stores["g3"].root, str(tmp_path / "archive")

    ran = run(capsys, "archive", "--store", root, "--to", directory, "--json")
    again = run(capsys, "archive", "--store", root, "--to", directory, "--json")

    (first,) = [json.loads(line) for line in ran.out.splitlines()]
    (second,) = [json.loads(line) for line in again.out.splitlines()]
    assert first["rows"] == spark.read.parquet(directory).count() > 0
    assert (0, first["high"]) == (second["rows"], second["high"])
    other = run(capsys, "archive", "--store", root, "--to", directory, "--what", "all")
    assert other.code == 1
    assert "expected the archive of all messages, found that of delivered" in other.err
