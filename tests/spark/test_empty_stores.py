"""Stores that nothing was ever sent to: tables and results are empty and whole, no job fails."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cli.program import SMALL_FILES, Ran
from interop.serving import serving
from timermq.cli import main
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.jobs.archive import ArchiveReport, archive
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.spark.jobs.rebuild import rebuild
from timermq.pipeline.spark.tables.registration import SOURCES


@pytest.fixture(scope="module", params=["a broker was here", "a folder alone"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that a broker made and left, or a directory with an empty commit log."""
    root = tmp_path_factory.mktemp("empty") / "store"
    if request.param == "a folder alone":
        (root / "commitlog").mkdir(parents=True)
    else:
        with serving(root, *SMALL_FILES):
            pass
    return str(root)


def test_tables(spark: SparkSession, store: str) -> None:
    """No table has a row."""
    frames = [
        read_table(spark, source.name(), store).selectExpr(f"'{source.name()}' AS name", "count(*)")
        for source in SOURCES
    ]

    found = reduce(DataFrame.union, frames).collect()

    assert {source.name(): 0 for source in SOURCES} == {row[0]: row[1] for row in found}


def test_audit(spark: SparkSession, store: str) -> None:
    """Nothing is broken, nothing is counted, and nothing is left open."""
    result = audit(spark, store, late_ms=0, in_order=True)

    assert result.is_clean
    assert [] == result.findings.collect()
    assert {0} == set(result.counts.values())
    assert [] == result.notes


def test_report(
    spark: SparkSession, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits, nothing was delivered; the tables are written, and there are no pictures."""
    out = tmp_path / "report"

    capsys.readouterr()
    code = main(["spark", "report", "--store", store, "--out", str(out), "--json"])
    captured = capsys.readouterr()

    (row,) = Ran(code, captured.out, captured.err).rows
    assert (0, "") == (code, captured.err)
    assert (0, None, None) == (
        dict(row["pending"])["count"],  # type: ignore[call-overload]  # JSON
        row["lateness"],
        row["forecast"],
    )
    assert "backlog.parquet" in {path.name for path in out.iterdir()}
    assert [] == list(out.glob("*.svg"))
    assert 0 == spark.read.parquet(str(out / "backlog.parquet")).count()


def test_rebuild(spark: SparkSession, store: str, tmp_path: Path) -> None:
    """The new files hold no timer, and the log is accounted for."""
    report = rebuild(spark, store, out=str(tmp_path / "new"))

    assert (0, 0, 0, None) == (
        report.timers.units,
        report.timers.log_end,
        report.done,
        report.left_from,
    )
    assert (tmp_path / "new" / "timerwheel").is_file()


def test_archive(spark: SparkSession, store: str, tmp_path: Path) -> None:
    """There is nothing to be archived, now and the next time."""
    nothing = ArchiveReport(batches=0, rows=0, files=0, low=0, high=0)

    assert [nothing] * 2 == [archive(spark, store, str(tmp_path / "lake")) for _ in range(2)]
    assert [] == list((tmp_path / "lake").rglob("*.parquet"))
