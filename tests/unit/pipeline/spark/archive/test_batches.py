"""What of an archive is replayed as one job, and what that job is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark.archive.archive_log import About, Book, commit
from timermq.pipeline.spark.archive.archive_log import entries as entries_of
from timermq.pipeline.spark.archive.batch import ArchivedFile, Batch
from timermq.pipeline.spark.archive.batches import Portion, listed_paths, portions
from timermq.pipeline.spark.archive.directory_lake import DirectoryLake

SAID = {"from_ms": 0, "to_ms": 9, "shift_ms": 1, "topics": list[str]()}
TOPICS = ("topic_name=A", "topic_name=B")


def entries(root: Path) -> list[Batch]:
    """The batches of its manifest."""
    return entries_of(DirectoryLake(str(root)))


def archived(root: Path, *lows: int) -> list[str]:
    """An archive with a batch from each position to 100 bytes behind it; its files."""
    book = Book(str(root), About("delivered", internal=False))
    book.begin()
    for low in lows:
        run, files = book.begin_batch(low, low + 100), list[ArchivedFile]()
        for topic in TOPICS:
            path = root / topic / f"{low}.parquet"
            path.parent.mkdir(exist_ok=True)
            size = path.write_text(f"{low} {topic}")
            files.append(ArchivedFile(f"{topic}/{low}.parquet", 1, size))
        commit(run, files)
        book.end_batch(run)
    book.close()
    return files_of(root)


def files_of(root: Path) -> list[str]:
    """The places of the Parquet files."""
    return [path.relative_to(root).as_posix() for path in root.rglob("*.parquet")]


def jobs_of(root: Path, **said: object) -> list[str]:
    """The jobs that replay all of an archive."""
    found = portions(root, files_of(root), entries(root))
    return [portion.job({**SAID, **said}) for portion in found]


def names(*lows: int) -> list[tuple[str, ...]]:
    """The files of batches that begin at these positions, a file a topic."""
    return [tuple(f"{topic}/{low}.parquet" for topic in TOPICS) for low in lows]


def test_batches(tmp_path: Path) -> None:
    """A portion a batch; of a batch only the files that hold something of the range."""
    places = archived(tmp_path, 0, 100)
    known = entries(tmp_path)

    assert names(0, 100) == [one.files for one in portions(tmp_path, places, known)]
    (only,) = names(100)
    assert [Portion(tmp_path, only[:1])] == portions(tmp_path, only[:1], known)


def test_other_tables(tmp_path: Path) -> None:
    """Of files that are of no batch each stands for itself."""
    assert [("a.parquet",), ("b.parquet",)] == [
        one.files for one in portions(tmp_path, ("b.parquet", "a.parquet"), entries(tmp_path))
    ]


def test_two_spellings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same content is the same jobs: by a path, a link, from elsewhere, copied."""
    root = tmp_path / "archive"
    for one in (root, tmp_path / "copy"):
        archived(one, 0, 100)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(tmp_path)

    expected = jobs_of(root)
    assert len(set(expected)) == 2
    for spelling in ("archive", "link", "copy", "archive/../link/"):
        assert expected == jobs_of(Path(spelling))
    assert expected != jobs_of(root, shift_ms=2)


def test_a_grown_archive(tmp_path: Path) -> None:
    """What it had keeps its jobs, and what has come gets new ones."""
    archived(tmp_path, 0)
    before = jobs_of(tmp_path)
    archived(tmp_path, 100)
    after = jobs_of(tmp_path)

    assert (1, 2) == (len(before), len(after))
    assert before == after[:1]


def test_files_that_were_removed(tmp_path: Path) -> None:
    """What its owner has removed of an archive is passed over, and so is what no entry lists."""
    archived(tmp_path, 0, 100)
    (_, gone), (first, second) = names(0, 100)
    (tmp_path / gone).unlink()
    (tmp_path / "strange.parquet").touch()

    found = listed_paths(tmp_path, entries(tmp_path))
    assert [str(tmp_path / one) for one in (names(0)[0][0], first, second)] == found
