"""Spark removes what a directory holds only where that is a table of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.tables.written_table import write_mode

PART = "part-00000-2f1c-c000.snappy.parquet"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store's directory beside which there is room."""
    (tmp_path / "data" / "store" / "commitlog").mkdir(parents=True)
    return str(tmp_path / "data" / "store")


def test_nothing_there(store: str, tmp_path: Path) -> None:
    """A missing directory is made, an empty one is filled."""
    (tmp_path / "empty").mkdir()

    assert write_mode(str(tmp_path / "new"), store=store) == "errorifexists"
    assert write_mode(str(tmp_path / "empty"), store=store) == "overwrite"


def test_an_older_table(store: str, tmp_path: Path) -> None:
    """What Spark wrote there before is replaced, also what a job that died has left."""
    out = tmp_path / "out"
    (out / "_temporary" / "0").mkdir(parents=True)
    for name in (PART, f".{PART}.crc", "_SUCCESS", "._SUCCESS.crc"):
        (out / name).touch()

    assert write_mode(str(out), store=store) == "overwrite"
    assert write_mode(f"file://{out}", store=store) == "overwrite"


@pytest.mark.parametrize(
    "name", ["notes.txt", "mine.parquet", ".git", "date=2026-11-21", "_archive"]
)
def test_somebodys_files(store: str, tmp_path: Path, name: str) -> None:
    """They are named, and refused, also beside an older table."""
    out = tmp_path / "out"
    (out / name).mkdir(parents=True)
    (out / PART).touch()

    with pytest.raises(SparkJobError, match=rf"^{out}: expected .* Spark wrote, found '{name}'$"):
        write_mode(str(out), store=store)
    with pytest.raises(SparkJobError, match=f"found '{name}'"):
        write_mode(f"file:{out}", store=store)


def test_a_name_of_sparks_on_something_else(store: str, tmp_path: Path) -> None:
    """A folder or a link that is called like a part is none."""
    folder, link = tmp_path / "folder", tmp_path / "link"
    (folder / PART).mkdir(parents=True)
    link.mkdir()
    (link / "_SUCCESS").symlink_to(tmp_path)

    for out in (folder, link):
        with pytest.raises(SparkJobError, match="expected a directory with nothing in it but"):
            write_mode(str(out), store=store)


def test_a_file(store: str, tmp_path: Path) -> None:
    """A file is refused where a directory is expected."""
    (tmp_path / "out").touch()

    with pytest.raises(SparkJobError, match="expected a directory, found a file"):
        write_mode(str(tmp_path / "out"), store=store)


def test_the_store(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is, holds or surrounds no directory of a table, however that is spelled."""
    monkeypatch.chdir(tmp_path / "data")
    (tmp_path / "link").symlink_to(store)
    cases = {
        store: "the store itself",
        "store": "the store itself",
        str(tmp_path / "link"): "the store itself",
        f"file:{store}": "the store itself",
        f"{store}/out": "one within it",
        str(tmp_path / "link" / "out"): "one within it",
        ".": "one that holds it",
        "..": "one that holds it",
        "/": "one that holds it",
    }

    for out, found in cases.items():
        with pytest.raises(SparkJobError, match=f"apart from the store {store}, found {found}$"):
            write_mode(out, store=store)
    assert write_mode(f"{store}2", store=store) == "errorifexists"


def test_another_file_system(store: str) -> None:
    """What this machine does not see is not removed: Spark refuses a directory that exists."""
    assert write_mode("hdfs://name/out", store=store) == "errorifexists"
