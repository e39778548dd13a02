"""The manifest of an archive has whole batches, each once, whenever a process dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.archive.archive_log import (
    About,
    Book,
    Run,
    commit,
)
from timermq.pipeline.spark.archive.archive_log import entries as entries_of
from timermq.pipeline.spark.archive.batch import ArchivedFile, Batch
from timermq.pipeline.spark.archive.day_files import DayFiles
from timermq.pipeline.spark.archive.directory_lake import DirectoryLake

ABOUT = About("delivered", internal=False)
DAYS = ("2026-01-01", "2026-01-02")


def entries(directory: Path) -> list[Batch]:
    """The batches of its manifest."""
    return entries_of(DirectoryLake(str(directory)))


class DiedError(Exception):
    """The process of a job dies at this moment."""


def written(run: Run, attempt: str = "0-first") -> list[ArchivedFile]:
    """What a task writes for a batch: a file a day."""
    files = DayFiles(run, attempt)
    rows = [{"date": day, "topic_name": "T", "text": f"batch {run.low} {day}"} for day in DAYS]
    files.write(pa.RecordBatch.from_pylist(rows))
    files.close()
    return files.files


def texts(directory: Path) -> list[str]:
    """What a reader of the manifest finds."""
    paths = [directory / file.path for batch in entries(directory) for file in batch.files]
    return sorted(text for path in paths for text in texts_of(path))


def texts_of(path: Path) -> list[str]:
    """The rows of one file."""
    # The stubs of pyarrow leave open what columns are.
    found = parquet.ParquetFile(path).read()  # pyright: ignore[reportUnknownMemberType]
    return [str(text) for text in found.column("text").to_pylist()]


def run(directory: Path) -> None:
    """The job: two batches, each once."""
    with book_of(directory) as book:
        last = book.begin()
        for low in (0, 100)[0 if last is None else last.number + 1 :]:
            batch = book.begin_batch(low, low + 100)
            commit(batch, written(batch))
            book.end_batch(batch)


@contextmanager
def book_of(directory: Path) -> Generator[Book]:
    """A book as long as its process lives."""
    book = Book(str(directory), ABOUT)
    try:
        yield book
    finally:
        book.close()


CHANGES_MAX = 80
"""Changes of files, and syncs, that the two batches take at most: a run may die before each."""
EXPECTED = sorted(f"batch {low} {day}" for low in (0, 100) for day in DAYS)


def test_two_batches(tmp_path: Path) -> None:
    """Every file has its stretch, run and attempt in its name; another run adds nothing."""
    run(tmp_path / "archive")
    run(tmp_path / "archive")

    first, second = entries(tmp_path / "archive")
    assert texts(tmp_path / "archive") == EXPECTED
    assert [1, 1] == [file.rows for file in first.files]
    assert second.files[1].path == (
        f"date={DAYS[1]}/topic_name=T/{100:020d}-{second.run}-0-first-00001.parquet"
    )
    assert ["about.json", "batch-00000000.json", "batch-00000001.json", "lock"] == sorted(
        path.name for path in (tmp_path / "archive" / "_archive").iterdir()
    )


@pytest.mark.parametrize("dies_at", range(CHANGES_MAX + 1))
def test_a_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    """Wherever a run dies the manifest has whole batches; the next run completes the archive.

    Nothing is left of the run that died, and what looked like Parquet was that at all times.
    """
    directory, left = tmp_path / "archive", [dies_at]

    def dying(change: Callable[..., object]) -> Callable[..., object]:
        def changed(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] <= -1:
                raise DiedError
            return change(*args, **kwargs)

        return changed

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "mkdir", "write_bytes", "hardlink_to", "unlink"):
            patch.setattr(Path, name, dying(getattr(Path, name)))
        patch.setattr(os, "fsync", dying(os.fsync))
        try:
            run(directory)
        except DiedError:
            assert left[0] <= -1
    seen = texts(directory)
    strewn = [text for path in directory.rglob("date*/*/0*.parquet") for text in texts_of(path)]

    run(directory)

    assert left[0] >= 0 or dies_at < CHANGES_MAX
    assert seen in ([], EXPECTED[:2], EXPECTED)
    assert set(strewn) <= set(EXPECTED)
    assert texts(directory) == EXPECTED
    assert EXPECTED == sorted(
        text for path in directory.rglob("date*/*/*") for text in texts_of(path)
    )
    assert not list(directory.glob("_archive/run-*"))


def test_a_task_that_is_tried_again(tmp_path: Path) -> None:
    """Files of a try that does not count are none of the batch, and go with the next run."""
    with book_of(tmp_path) as book:
        book.begin()
        batch = book.begin_batch(0, 100)
        written(batch, "0-killed")
    assert [] == entries(tmp_path)
    run(tmp_path)

    assert texts(tmp_path) == EXPECTED
    assert len(EXPECTED) == len(list(tmp_path.rglob("*.parquet")))


def test_a_task_that_outlives_its_driver(tmp_path: Path) -> None:
    """What it writes while the next run is at work is removed too."""
    with book_of(tmp_path) as book:
        book.begin()
        dead = book.begin_batch(0, 100)
    with book_of(tmp_path) as book:
        book.begin()
        batch = book.begin_batch(0, 100)
        written(dead, "0-late")
        commit(batch, written(batch))
        book.end_batch(batch)

    assert texts(tmp_path) == EXPECTED[:2]
    assert 2 == len(list(tmp_path.rglob("*.parquet")))


def test_a_commit_that_comes_twice(tmp_path: Path) -> None:
    """The same run changes nothing; another one is refused, and its files are none."""
    with book_of(tmp_path) as book:
        book.begin()
        batch = book.begin_batch(0, 100)
        first = commit(batch, written(batch))
        again = commit(batch, written(batch, "1-other"))
        # Of another machine, where the lock is not seen.
        rival = msgspec.structs.replace(batch, name="rival")
        with pytest.raises(SparkJobError, match="expected no entry, found that of another run"):
            commit(rival, written(rival))

    assert first != again
    assert [first] == entries(tmp_path)
    assert texts(tmp_path) == EXPECTED[:2]


def test_a_task_that_fails(tmp_path: Path) -> None:
    """The file that it was writing is gone; it may still be told so again."""
    with book_of(tmp_path) as book:
        book.begin()
        files = DayFiles(book.begin_batch(0, 100), "0-failed")
        row = {"date": DAYS[0], "topic_name": "a/b", "text": ""}
        files.write(pa.RecordBatch.from_pylist([row]))
        (folder,) = tmp_path.glob("date=*/*")
        assert ("topic_name=a%2Fb", 1) == (folder.name, len(list(folder.iterdir())))
        files.drop()
        files.drop()

    assert [] == list(folder.iterdir())
    assert [] == files.files


@pytest.mark.parametrize(("change", "found"), [("lost", "no file"), ("cut", "3")])
def test_what_a_task_wrote_is_not_there(tmp_path: Path, change: str, found: str) -> None:
    """Files on the disks of other machines, or of other sizes, make no batch."""
    with book_of(tmp_path) as book:
        book.begin()
        batch = book.begin_batch(0, 100)
        files = written(batch)
        path = tmp_path / files[1].path
        if change == "lost":
            path.unlink()
        else:
            path.write_text("cut")
        with pytest.raises(SparkJobError, match=rf"that a task has written, found {found}: the"):
            commit(batch, files)

    assert [] == entries(tmp_path)


def test_an_archive_of_an_older_version(tmp_path: Path) -> None:
    """A batch that was being moved when its run died is moved to its end, and goes on counting."""
    run(tmp_path / "archive")
    directory, staging = tmp_path / "archive", tmp_path / "archive.staging"
    entry = directory / "_archive" / f"batch-{1:08d}.json"
    told = msgspec.json.decode(entry.read_bytes())
    files = [
        {"staged": f"{at}.parquet", "path": one["path"]} for at, one in enumerate(told["files"])
    ]
    told = {name: told[name] for name in ("number", "low", "high", "rows")}
    entry.write_bytes(msgspec.json.encode({**told, "files": files, "is_published": False}))
    staging.mkdir()
    (directory / files[1]["path"]).rename(staging / "1.parquet")

    run(directory)

    assert texts(directory) == EXPECTED
    assert not staging.exists()


def test_durable_before_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut that leaves an entry leaves its files, and the names of all folders above."""
    directory = tmp_path / "lake" / "archive"
    synced: set[int] = set()
    lacking: list[list[Path]] = []
    fsync, link = os.fsync, Path.hardlink_to

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def compared(self: Path, target: Path) -> None:
        needed = [tmp_path, directory.parent, directory, *directory.glob("date=*/**/*")]
        lacking.append([path for path in needed if path.stat().st_ino not in synced])
        link(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "hardlink_to", compared)
    run(directory)

    assert [[]] * 2 == lacking


def test_another_purpose(tmp_path: Path) -> None:
    """An archive of delivered messages does not become one of all."""
    run(tmp_path)

    with pytest.raises(SparkJobError, match="expected the archive of all messages with internal"):
        Book(str(tmp_path), About("all", internal=True))


def test_two_runs_at_a_time(tmp_path: Path) -> None:
    """The second one is refused, until the first has ended."""
    book = Book(str(tmp_path), ABOUT)

    with pytest.raises(SparkJobError, match="found one that archives into it"):
        Book(str(tmp_path), ABOUT)

    book.close()
    Book(str(tmp_path), ABOUT).close()


def test_somebodys_files(tmp_path: Path) -> None:
    """A directory with Parquet files of somebody else's is no archive."""
    (tmp_path / "mine.parquet").touch()

    with pytest.raises(SparkJobError, match=r"found such files and no _archive/about\.json"):
        Book(str(tmp_path), ABOUT)


@pytest.mark.parametrize("name", [".", "../archive", "sub/.."])
def test_a_directory_that_is_named_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The current one too: files have their whole paths."""
    place = tmp_path / "archive"
    place.mkdir()
    monkeypatch.chdir(place)

    run(Path(name))

    assert texts(place) == EXPECTED
    assert [place] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hdfs://host/lake", "found the address of another place"),
        ("file:/lake", "found the address of another place"),
    ],
)
def test_no_place_for_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, found: str
) -> None:
    """One line says so, and nothing is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SparkJobError, match=found):
        Book(name, ABOUT)

    assert [] == list(tmp_path.iterdir())
