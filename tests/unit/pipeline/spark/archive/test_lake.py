"""One contract for both places of an archive: a directory, and an object store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from object_store import BUCKET, access, object_store
from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.archive.archive_log import (
    DEAD_MS,
    About,
    Book,
    Run,
    commit,
    entries,
)
from timermq.pipeline.spark.archive.lake import Lake
from timermq.pipeline.spark.archive.lake_place import lake_of
from unit.pipeline.spark.archive.test_archive_log import DAYS, written

pytestmark = pytest.mark.slow

ABOUT = About("delivered", internal=False)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an object store in a process of its own, with one bucket."""
    with object_store(tmp_path_factory.mktemp("moto") / "log") as one:
        yield one


@pytest.fixture
def url(port: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place in the object store that the environment leads to."""
    for name, value in access(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name}"


def keeps_the_contract(lake: Lake) -> None:
    """Files are there as they were put last; a new one only if there was none."""
    assert ([], None, None, False) == (
        lake.names("_archive"),
        lake.get("_archive/a"),
        lake.size("_archive/a"),
        lake.has_files(".parquet"),
    )
    lake.put("_archive/a", b"first")
    lake.put("_archive/a", b"second")
    assert (True, False) == (lake.put_new("_archive/b", b"one"), lake.put_new("_archive/b", b"two"))
    assert (b"second", b"one") == (lake.get("_archive/a"), lake.get("_archive/b"))
    assert (["a", "b"], 6) == (lake.names("_archive"), lake.size("_archive/a"))
    for name in ("day=1/0-run-1.parquet", "day=2/0-run-1.parquet", "day=2/0-other-1.parquet"):
        with lake.written(name) as file:
            file.write(b"x" * 10)
    lake.make_durable(["day=1/0-run-1.parquet"])
    assert lake.has_files(".parquet")
    assert {"day=1/0-run-1.parquet", "day=2/0-run-1.parquet"} == set(lake.of_run("run"))
    assert ["day=2/0-run-1.parquet"] == lake.of_run("run", "day=2")
    lake.remove("day=2/0-run-1.parquet")
    lake.remove("day=2/0-run-1.parquet")
    assert ["day=1/0-run-1.parquet"] == lake.of_run("run")


def test_a_directory(tmp_path: Path) -> None:
    """Files below a directory that is made with the first of them."""
    keeps_the_contract(lake_of(f"{tmp_path}/deep/lake"))


def test_an_object_store(url: str) -> None:
    """Objects below a prefix of a bucket."""
    keeps_the_contract(lake_of(url))


def test_two_runs_at_a_time(url: str) -> None:
    """In an object store no lock keeps them apart: the second one to end is refused."""
    books = [Book(url, ABOUT) for _ in range(2)]
    runs = list[Run]()
    for book in books:
        assert book.begin() is None
        runs.append(book.begin_batch(0, 100))
    first = commit(runs[0], written(runs[0]))
    with pytest.raises(SparkJobError, match="expected no entry, found that of another run"):
        commit(runs[1], written(runs[1]))

    assert [first] == entries(lake_of(url))
    assert first == commit(runs[0], first.files)
    assert first == books[0].end_batch(runs[0])


def test_a_run_that_died(url: str) -> None:
    """Its files are removed when it must be dead, and not before: it might live."""
    now_ms = [1_000_000]

    def run_once(low: int) -> int:
        book = Book(url, ABOUT, lambda: now_ms[0])
        book.begin()
        run = book.begin_batch(low, low + 100)
        commit(run, written(run))
        book.end_batch(run)
        return len(lake_of(url).of_run(dead.name))

    book = Book(url, ABOUT, lambda: now_ms[0])
    book.begin()
    dead = book.begin_batch(0, 100)
    written(dead)
    now_ms[0] += DEAD_MS
    assert len(DAYS) == run_once(0)
    now_ms[0] += 1
    assert 0 == run_once(100)

    lake = lake_of(url)
    assert ["about.json", "batch-00000000.json", "batch-00000001.json"] == lake.names("_archive")
    assert [0, 100] == [batch.low for batch in entries(lake)]


def test_an_object_store_that_refuses(url: str) -> None:
    """The error names the place."""
    with pytest.raises(SparkJobError, match=r"s3://no-such-bucket.*expected an object store"):
        Book("s3://no-such-bucket/lake", ABOUT)
