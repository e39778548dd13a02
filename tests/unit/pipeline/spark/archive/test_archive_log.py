"""The files of an archive are published once, whenever a process dies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.archive.archive_log import About, Book

ABOUT = About("delivered", internal=False)
DAYS = ("date=2026-01-01/topic_name=T", "date=2026-01-02/topic_name=T")


class DiedError(Exception):
    """The process of a job dies at this moment."""


def stage(book: Book, text: str) -> None:
    """What Spark writes for a batch: a file a day, names drawn, and its mark."""
    for day in DAYS:
        (book.staging / day).mkdir(parents=True)
        (book.staging / day / f"part-{os.urandom(4).hex()}.parquet").write_text(f"{text} {day}")
    (book.staging / "_SUCCESS").touch()


def texts(directory: Path) -> list[str]:
    """What a reader of the Parquet files finds."""
    return sorted(path.read_text() for path in directory.glob("**/*.parquet"))


def run(directory: Path) -> None:
    """The job: two batches, each once."""
    book = Book(str(directory), ABOUT)
    try:
        last = book.begin()
        for low in (0, 100)[0 if last is None else last.number + 1 :]:
            stage(book, f"batch {low}")
            book.add(low, low + 100, 2)
    finally:
        book.close()  # as the end of a process does


CHANGES_MAX = 90
"""Changes of files, and syncs, that the two batches take at most: a run may die before each."""
EXPECTED = sorted(f"batch {low} {day}" for low in (0, 100) for day in DAYS)


def test_two_batches(tmp_path: Path) -> None:
    """Every file is in its place, named by where its stretch begins; another run adds nothing."""
    run(tmp_path / "archive")
    run(tmp_path / "archive")

    assert texts(tmp_path / "archive") == EXPECTED
    assert (tmp_path / "archive" / DAYS[1] / f"{100:020d}-00001.parquet").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive"]


@pytest.mark.parametrize("dies_at", range(CHANGES_MAX + 1))
def test_a_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    """Wherever a run dies, no file is there twice; the next run completes the archive."""
    directory, left = tmp_path / "archive", [dies_at]

    def dying(change: Callable[..., object]) -> Callable[..., object]:
        def changed(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                raise DiedError
            return change(*args, **kwargs)

        return changed

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "mkdir", "write_bytes", "write_text"):
            patch.setattr(Path, name, dying(getattr(Path, name)))
        patch.setattr(os, "fsync", dying(os.fsync))
        try:
            run(directory)
        except DiedError:
            assert left[0] == -1
    seen = texts(directory)

    run(directory)

    assert left[0] >= 0 or dies_at < CHANGES_MAX
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(EXPECTED)
    assert texts(directory) == EXPECTED
    assert not (tmp_path / "archive.staging").exists()


def begun(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive whose first batch has its entry, and none of its files in place; the entry."""

    def dying(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(DiedError):
            run(directory)
    return directory / "_archive" / f"batch-{0:08d}.json"


def test_a_batch_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry stands, its files are gone: no run goes on behind it until that is settled."""
    directory = tmp_path / "archive"
    entry = begun(directory, monkeypatch)
    shutil.rmtree(tmp_path / "archive.staging")

    for _ in range(2):
        with pytest.raises(
            SparkJobError, match=r"found neither of 2 out of 2, the first date=2026"
        ):
            run(directory)
    entry.unlink()
    run(directory)

    assert texts(directory) == EXPECTED


def test_a_file_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two: nothing is moved before that is known; with the file put back, all goes on."""
    directory, staging = tmp_path / "archive", tmp_path / "archive.staging"
    begun(directory, monkeypatch)
    lost = next(staging.glob(f"{DAYS[1]}/*.parquet"))
    lost.rename(tmp_path / "kept")

    with pytest.raises(SparkJobError, match="found neither of 1 out of 2"):
        run(directory)
    assert [] == texts(directory)
    (tmp_path / "kept").rename(lost)
    run(directory)

    assert texts(directory) == EXPECTED


def test_files_that_were_taken_away_later(tmp_path: Path) -> None:
    """What was in its place once may be removed, or rewritten, by the owner of the archive."""
    run(tmp_path)
    for path in tmp_path.glob("date=*/*/*.parquet"):
        path.unlink()

    run(tmp_path)

    assert [] == texts(tmp_path)


def test_an_entry_that_does_not_say_that_it_is_published(tmp_path: Path) -> None:
    """As older versions wrote it: its files are in their places, and another run adds nothing."""
    run(tmp_path)
    entry = tmp_path / "_archive" / f"batch-{1:08d}.json"
    told = msgspec.json.decode(entry.read_bytes())
    assert told.pop("is_published")
    entry.write_bytes(msgspec.json.encode(told))

    run(tmp_path)

    assert texts(tmp_path) == EXPECTED


def test_durable_before_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut that leaves an entry leaves its files, and the names of all folders above."""
    directory, staging = tmp_path / "lake" / "archive", tmp_path / "lake" / "archive.staging"
    synced: set[int] = set()
    lacking: list[list[Path]] = []
    fsync, replace = os.fsync, Path.replace

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def compared(self: Path, target: Path) -> Path:
        needed = [tmp_path, directory.parent, directory]
        if target.name.startswith("batch-"):
            needed += [staging, *(path for path in staging.rglob("*") if path.name != "_SUCCESS")]
            needed += directory.glob("date=*/**/*")
            lacking.append([path for path in needed if path.stat().st_ino not in synced])
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "replace", compared)
    run(directory)

    assert [[]] * 4 == lacking


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
    """The current one too: staging stands beside it, not in it."""
    place = tmp_path / "archive"
    place.mkdir()
    monkeypatch.chdir(place)

    run(Path(name))

    assert texts(place) == EXPECTED
    assert [place] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("/", "found the root of the file system"),
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
