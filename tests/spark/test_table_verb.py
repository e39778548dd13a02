"""``timermq spark table``: rows of a table on the terminal, as JSON, as Parquet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.program import Ran
from golden_stores import GoldenStores
from timermq.cli import main


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Run the program, with the session of the tests."""
    capsys.readouterr()
    code = main(["spark", "table", *argv])
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


def test_rows(
    spark: SparkSession, golden_stores: GoldenStores, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns as they were asked for, rows for which the condition holds."""
    store = golden_stores["g3"]
    units = store.manifest.state.timer.units

    ran = run(
        capsys,
        *("timerlog", "--store", store.root, "--json", "--limit", "1000"),
        *("--option", "columns=topic_hash,pos", "--where", "pos >= 520"),
    )

    assert (0, "") == (ran.code, ran.err)
    assert [
        {"topic_hash": unit.topic_hash, "pos": unit.position}
        for unit in units
        if unit.position >= 520
    ] == sorted(ran.rows, key=lambda row: str(row["pos"]).zfill(9))


@pytest.mark.usefixtures("spark")
def test_stores_and_moments(
    golden_stores: GoldenStores, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several stores are one table; a moment may be any that the other verbs take."""
    stores = [
        flag for name in ("g3", "g5") for flag in ("--store", f"{name}={golden_stores[name].root}")
    ]
    flags = ("pending", *stores, "--json", "--limit", "1000", "--option", "columns=broker")

    ran = run(capsys, *flags, "--option", "due_to=now", "--option", "due_from=2026-01-01T00:00Z")

    assert (0, "") == (ran.code, ran.err)
    assert {"g3": 101, "g5": 9} == Counter(str(row["broker"]) for row in ran.rows)


def test_parquet(
    spark: SparkSession,
    golden_stores: GoldenStores,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The whole table is written, for whatever reads Parquet."""
    store = golden_stores["g3"]

    ran = run(capsys, "timerlog", "--store", store.root, "--out", str(tmp_path / "units"))

    assert (0, "", "") == (ran.code, ran.out, ran.err)
    written = spark.read.parquet(str(tmp_path / "units"))
    assert len(store.manifest.state.timer.units) == written.count()


@pytest.mark.parametrize("argv", [("table", "timerlog"), ("audit",), ("report",)])
def test_out_takes_the_place_of_no_other(
    spark: SparkSession,
    golden_stores: GoldenStores,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    argv: tuple[str, ...],
) -> None:
    """An older table is replaced; somebody's files, and the store's, are refused and stay."""
    root, out = golden_stores.unpack_copy("g3", tmp_path), tmp_path / "out"
    flags = ("--store", root, "--drain-rate", "1") if argv == ("report",) else ("--store", root)
    table = out / "rolls.parquet" if argv == ("report",) else out
    files = sorted(Path(root).rglob("*"))
    spark.range(1, numPartitions=1).write.parquet(str(table))

    def code(where: Path) -> int:
        return main(["spark", *argv, *flags, "--out", str(where)])

    ran = code(out)
    replaced = spark.read.parquet(str(table)).columns
    (table / "diary.txt").write_text("mine")
    capsys.readouterr()
    assert (ran, code(out)) in ((0, 1), (1, 1))
    assert capsys.readouterr().err == (
        f"timermq: {table}: expected a directory with nothing in it but a table that Spark wrote, "
        "found 'diary.txt'\n"
    )
    assert code(Path(root)) == 1
    assert "expected a directory apart from the store" in capsys.readouterr().err
    assert "id" not in replaced
    assert (table / "diary.txt").read_text() == "mine"
    assert sorted(Path(root).rglob("*")) == files


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--option", "bogus=1"], "option 'bogus': expected one of columns, due_from"),
        (["--option", "bogus"], "--option: expected NAME=VALUE, found 'bogus'"),
        (["--option", "due_from=soon"], "--option due_from: moment 'soon': expected a form like"),
        (["--option", "columns=pos,bogus"], "column 'bogus': expected one of pos, prev_pos"),
        (["--where", "bogus > 3"], "parameter with name `bogus` cannot be resolved"),
    ],
)
def test_what_makes_no_sense(
    spark: SparkSession,
    golden_stores: GoldenStores,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    line: str,
) -> None:
    """One line says which option or column, and what was expected."""
    ran = run(capsys, "timerlog", "--store", golden_stores["g3"].root, *argv)

    assert ran.code in (1, 2)
    assert ran.out == ""
    assert ran.err.startswith("timermq: ")
    assert ran.err.count("\n") == 1
    assert line in ran.err


def test_no_store(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What was raised in a process of Spark's is told like any other error."""
    ran = run(capsys, "wheel", "--store", str(tmp_path))

    assert (1, f"timermq: {tmp_path}: expected a store, found no folder commitlog\n") == (
        ran.code,
        ran.err,
    )
