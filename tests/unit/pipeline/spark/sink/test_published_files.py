"""Files beside a job: what one rename publishes, and what a driver that died has left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.sink.part_writer import Part
from timermq.pipeline.spark.sink.published_files import PublishedFiles, RunList


def gathered(root: Path, run: str, *attempts: str) -> RunList:
    """A run whose attempts have written a file each, named like them."""
    files = PublishedFiles(str(root), "J")
    for attempt in attempts:
        folder = files.attempt(attempt) / "due_day=2030-01-01"
        folder.mkdir()
        (folder / f"{attempt}.parquet").write_text(attempt)
    listed = RunList(
        parts=tuple((f"{attempt}.0", 1) for attempt in attempts),
        rows=len(attempts),
        by_rule={"A": 1},
    )
    files.gather(run, attempts, listed)
    return listed


def published(root: Path) -> list[str]:
    """The files that are visible."""
    return sorted(one.name for one in (root / "job=J").rglob("*.parquet"))


def none_handed_over(_: Sequence[Part]) -> bool:
    """Say of any run that the broker has not taken it."""
    return False


def test_the_run_that_was_taken(tmp_path: Path) -> None:
    """All of it is there at once, and nothing else is left."""
    files = PublishedFiles(str(tmp_path), "J")
    listed = gathered(tmp_path, "r1", "a", "b")
    assert ([], None) == (published(tmp_path), files.summary())

    files.publish("r1", none_handed_over)

    assert ["a.parquet", "b.parquet"] == published(tmp_path)
    assert listed == files.summary()
    assert [] == list((tmp_path / "_staging").iterdir())


def test_the_run_before_was_taken(tmp_path: Path) -> None:
    """A driver died behind its hand-over: of all runs the broker names that one."""
    first = gathered(tmp_path, "r1", "a")
    gathered(tmp_path, "r2", "b")

    PublishedFiles(str(tmp_path), "J").publish(None, lambda parts: parts == first.parts)

    assert ["a.parquet"] == published(tmp_path)


def test_no_run_was_taken(tmp_path: Path) -> None:
    """What was not handed over is not published."""
    gathered(tmp_path, "r1", "a")

    PublishedFiles(str(tmp_path), "J").publish(None, none_handed_over)

    assert [] == published(tmp_path)


def test_a_list_that_is_cut_short(tmp_path: Path) -> None:
    """Its driver died before the hand-over: the list was not on the disk."""
    gathered(tmp_path, "r1", "a")
    (tmp_path / "_staging/J/runs/r1/_list.json").write_text('{"parts": [')

    PublishedFiles(str(tmp_path), "J").publish(None, lambda _: True)

    assert [] == published(tmp_path)


def test_published_once(tmp_path: Path) -> None:
    """A second run of the job changes nothing."""
    gathered(tmp_path, "r1", "a")
    PublishedFiles(str(tmp_path), "J").publish("r1", none_handed_over)
    gathered(tmp_path, "r2", "b")

    PublishedFiles(str(tmp_path), "J").publish("r2", none_handed_over)

    assert ["a.parquet"] == published(tmp_path)


def test_an_attempt_elsewhere(tmp_path: Path) -> None:
    """An executor that has another directory by that name is told apart."""
    files = PublishedFiles(str(tmp_path), "J")

    with pytest.raises(SparkJobError, match="must be one that all executors and the driver see"):
        files.gather("r1", ["a"], RunList(parts=(), rows=1))
