"""Far files by their days."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.jobs.promote import far_files

DAY_MS = 86_400_000


def test_far_files(tmp_path: Path) -> None:
    """The first day first, at any depth; what is staged or hidden is not there."""
    for place in (
        "job=J/due_day=1970-01-03/a.parquet",
        "due_day=1970-01-02/b.parquet",
        "_staging/J/due_day=1970-01-02/c.parquet",
        "due_day=1970-01-02/_d.parquet",
        "due_day=1970-01-02/_SUCCESS",
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()

    assert [(DAY_MS, "b.parquet"), (2 * DAY_MS, "a.parquet")] == [
        (file.day_ms, file.path.name) for file in far_files(str(tmp_path))
    ]


@pytest.mark.parametrize("folder", ["", "due_day=tomorrow", "due_day=2030-02-30"])
def test_a_file_without_a_day(tmp_path: Path, folder: str) -> None:
    """It would never be promoted."""
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "a.parquet").touch()

    with pytest.raises(SparkJobError, match="expected a folder due_day=YYYY-MM-DD above it"):
        far_files(str(tmp_path))
