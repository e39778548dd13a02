"""Inputs of ``schedule``: their format by name, and the name of a job by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.jobs.schedule import content_name, format_of


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.csv", "csv"), ("a.parquet", "parquet"), ("A.JSON", "json"), ("a.ndjson.gz", "json")],
)
def test_formats(name: str, found: str) -> None:
    """By the ending, packed or not."""
    assert found == format_of([name])


def test_formats_of_a_directory(tmp_path: Path) -> None:
    """By its files; Spark's own are passed over."""
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-0.csv").touch()

    assert "csv" == format_of([str(tmp_path)])


@pytest.mark.parametrize("names", [["a"], ["a.txt"], ["a.csv", "b.json"]])
def test_unclear_formats(names: list[str]) -> None:
    """No format is guessed: the error asks for its name."""
    with pytest.raises(SparkJobError, match="name the format"):
        format_of(names)


def job_of(root: Path, **said: object) -> str:
    """The name of a job over a directory."""
    return content_name("schedule", [str(root)], said)


def test_names_by_content(tmp_path: Path) -> None:
    """The same content has the same name wherever it lies; anything else has another one."""
    first, moved = tmp_path / "first", tmp_path / "moved"
    for root in (first, moved):
        root.mkdir()
        (root / "a.csv").write_text("topic\nT\n")
    name = job_of(first, sql=None)

    assert name.startswith("schedule-")
    assert name == job_of(moved, sql=None)
    assert name != job_of(first, sql="select 1")
    (moved / "a.csv").write_text("topic\nU\n")
    assert name != job_of(moved, sql=None)
    (first / "b.csv").touch()
    assert name != job_of(first, sql=None)


def test_files_elsewhere() -> None:
    """What this machine does not see has no content here: the user names the job."""
    with pytest.raises(SparkJobError, match=r"hdfs://a/b: .* say by --job what makes this job"):
        content_name("schedule", ["hdfs://a/b"], {})
