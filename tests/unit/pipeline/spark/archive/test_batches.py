"""What of an archive is replayed as one job, and what that job is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.archive.archive_log import About, Book
from timermq.pipeline.spark.archive.batches import Portion, known_batches, portions

SAID = {"from_ms": 0, "to_ms": 9, "shift_ms": 1, "topics": list[str]()}
TOPICS = ("topic_name=A", "topic_name=B")


def archived(root: Path, *lows: int) -> list[str]:
    """An archive with a batch from each position to 100 bytes behind it; its files."""
    book = Book(str(root), About("delivered", internal=False))
    book.begin()
    for low in lows:
        for topic in TOPICS:
            (book.staging / topic).mkdir(parents=True)
            (book.staging / topic / f"part-{topic}.parquet").write_text(f"{low} {topic}")
        book.add(low, low + 100, 2)
    book.close()
    return files_of(root)


def files_of(root: Path) -> list[str]:
    """The places of the Parquet files."""
    return [path.relative_to(root).as_posix() for path in root.rglob("*.parquet")]


def jobs_of(root: Path, **said: object) -> list[str]:
    """The jobs that replay all of an archive."""
    found = portions(root, files_of(root), known_batches(str(root)))
    return [portion.job({**SAID, **said}) for portion in found]


def names(*lows: int) -> list[tuple[str, ...]]:
    """The files of batches that begin at these positions, a file a topic."""
    numbered = list(enumerate(TOPICS))
    return [tuple(f"{topic}/{low:020d}-{at:05d}.parquet" for at, topic in numbered) for low in lows]


def test_batches(tmp_path: Path) -> None:
    """A portion a batch; of a batch only the files that hold something of the range."""
    places = archived(tmp_path, 0, 100)
    known = known_batches(str(tmp_path))

    assert names(0, 100) == [one.files for one in portions(tmp_path, places, known)]
    (only,) = names(100)
    assert [Portion(tmp_path, only[:1])] == portions(tmp_path, only[:1], known)


def test_other_tables(tmp_path: Path) -> None:
    """Of files that are of no batch each stands for itself, in an archive too."""
    archived(tmp_path / "archive", 0)
    for root in (tmp_path / "archive", tmp_path / "table"):
        root.mkdir(exist_ok=True)
        for name in ("b.parquet", "a.parquet"):
            (root / name).touch()
    table, root = tmp_path / "table", tmp_path / "archive"

    assert [("a.parquet",), ("b.parquet",)] == [
        one.files for one in portions(table, files_of(table), known_batches(str(table)))
    ]
    assert [("a.parquet",), ("b.parquet",), *names(0)] == [
        one.files for one in portions(root, files_of(root), known_batches(str(root)))
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


def test_a_batch_that_comes_meanwhile(tmp_path: Path) -> None:
    """Its files may not all be there yet: they are for another run."""
    archived(tmp_path, 0)
    known = known_batches(str(tmp_path))
    places = archived(tmp_path, 100)

    assert names(0) == [one.files for one in portions(tmp_path, places, known)]


def test_a_batch_on_its_way(tmp_path: Path) -> None:
    """With some of its files it would be another job than with all of them."""
    root = tmp_path / "archive"
    archived(root, 0)
    missing = root / names(0)[0][1]
    staged = tmp_path / "archive.staging" / TOPICS[1] / f"part-{TOPICS[1]}.parquet"
    staged.parent.mkdir(parents=True)
    missing.rename(staged)

    with pytest.raises(SparkJobError, match=r"all files of batch 0 in their places, found topic_"):
        known_batches(str(root))
    staged.unlink()  # somebody has removed what is old
    assert len(known_batches(str(root))) == 1
